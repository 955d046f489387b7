"""Errors of the broker's tables, and the response code of each error.

A table raises a domain error with one sentence. The router looks up the error's type in `ERROR_CODES` and answers with that
code; the sentence is the response's remark. A handler may also raise `net.router.RefusedError`, which carries a code of its
own.
"""

from __future__ import annotations

from typing import Final

from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import DiskFullError, StoreError, TooLargeError, WritesStoppedError
from skyrocket.store.ledger.ledger_store import NotLeaderError


class TableError(Exception):
    """The root of the broker's own errors."""


class InvalidArgumentError(TableError):
    """A name, a number of queues or a permission that is not allowed."""


class SystemTopicError(InvalidArgumentError):
    """An attempt to change or delete a system topic."""


class UnsupportedAttributeError(InvalidArgumentError):
    """An attribute value that only Apache's store supports."""


class AttributeChangeError(TableError):
    """A change of attributes that is malformed or not allowed."""


class TopicNotFoundError(TableError):
    """A request for a topic that does not exist."""


class TopicPendingError(TableError):
    """A send to a topic that is being created. It is handled when the topic is on disk."""


class GroupNotFoundError(TableError):
    """A request for a subscription group that does not exist."""


class TableFullError(TableError):
    """A bound of `broker/limits.py` is reached."""


class SlaveWriteError(StoreError):
    """An attempt of the broker itself to store a message while it is a slave."""


class ReplicationError(Exception):
    """A master or a slave said something that it must not say, or nothing at all. Their connection is closed."""


class UnknownSlaveError(ReplicationError):
    """A slave has not shown that it may copy the log."""


class BrokerBrokenError(Exception):
    """The broker cannot go on: a part that it needs has failed in an unexpected way. Restart it."""


ERROR_CODES: Final[dict[type[Exception], ResponseCode]] = {  # the last matching row counts: a subclass stands below its base
    TableError: ResponseCode.SYSTEM_ERROR,
    InvalidArgumentError: ResponseCode.INVALID_PARAMETER,
    TopicPendingError: ResponseCode.SYSTEM_BUSY,
    TopicNotFoundError: ResponseCode.TOPIC_NOT_EXIST,
    GroupNotFoundError: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    StoreError: ResponseCode.SYSTEM_ERROR,
    DiskFullError: ResponseCode.SERVICE_NOT_AVAILABLE,
    WritesStoppedError: ResponseCode.SERVICE_NOT_AVAILABLE,
    TooLargeError: ResponseCode.MESSAGE_ILLEGAL,
    NotLeaderError: ResponseCode.SYSTEM_BUSY,
}

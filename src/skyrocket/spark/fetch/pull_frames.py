"""Encodes the pull requests of one queue. All but three numbers are encoded once: opaque, offset and message count.

Each pull carries the filter, belongs to no consumer of its group, commits no offset, and asks for an immediate response even if
there are no messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.queues import Queue
from skyrocket.client.session.credentials import Credentials, sign_fields
from skyrocket.protocol import versions
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import PREFIX
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.language import Language
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION
from skyrocket.spark.fetch.pull_window import PlannedPull

_CODE: Final = int(RequestCode.PULL_MESSAGE)
_LENGTH_BYTES: Final = 4
_VARYING: Final = ("maxMsgNums", "queueOffset")
_REST: Final = (
    b',"maxMsgNums":"%%d","queueOffset":"%%d"},"flag":0,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)


class PullFrames:
    """Encodes the pulls of one group and queue, whose names include the namespace."""

    def __init__(
        self, group: str, queue: Queue, subscription: Subscription, max_bytes: int, credentials: Credentials | None = None
    ) -> None:
        header = PullMessageRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=0,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=subscription.expression,
            sub_version=0,
            expression_type=subscription.kind,
            max_msg_bytes=max_bytes,
            rpc_broker_name=queue.broker_name,
            response_bytes_max=max_bytes,
        )
        self._fields = {name: value for name, value in header.to_fields().items() if name not in _VARYING}
        self._credentials = credentials
        self._before = b'{"code":%d,"extFields":%b' % (_CODE, msgspec.json.encode(self._fields)[:-1])

    def encode(self, pulls: Iterable[PlannedPull]) -> bytes:
        """Return the frames of these pulls, concatenated."""
        if self._credentials is not None:
            return b"".join([self._encode_signed(pull, self._credentials) for pull in pulls])
        pieces: list[bytes] = []
        for number, offset, _, messages in pulls:
            header = self._before + _REST % (messages, offset, number)
            pieces += PREFIX.pack(_LENGTH_BYTES + len(header), len(header)), header
        return b"".join(pieces)

    def _encode_signed(self, pull: PlannedPull, credentials: Credentials) -> bytes:
        fields = {**self._fields, "maxMsgNums": str(pull.messages), "queueOffset": str(pull.offset)}
        return encode_command(Command(_CODE, opaque=pull.number, fields=sign_fields(fields, b"", credentials)))

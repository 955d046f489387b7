"""The pull request of a queue and its response. The frame is encoded once for each queue; each pull fills in the offsets."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.pull.pull_policy import PullStatus, status_of
from skyrocket.client.consumer.subscription import TAG, Subscription
from skyrocket.client.errors import BrokerError
from skyrocket.client.queues import Queue
from skyrocket.protocol import versions
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Serialization, join_frame
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.language import Language
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND

_LIMITS: Final = ConsumerLimits()  # brokers give so much to any client
_CODE: Final = int(RequestCode.PULL_MESSAGE)
_VARYING_FIELDS: Final = ("commitOffset", "queueOffset", "sysFlag")
_FRAME_END: Final = (
    b',"commitOffset":"%%d","queueOffset":"%%d","sysFlag":"%%d"},"flag":0,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)


class PullRequest:
    """The pull request of one queue."""

    __slots__ = ("_flags", "_frame_start", "_header")

    def __init__(self, group: str, queue: Queue, subscription: Subscription, limits: ConsumerLimits) -> None:
        """Encode the constant part.

        Each pull carries a tag expression, because a broker may have lost the subscription. It does not carry an SQL92
        expression: the broker compiles that once for each heartbeat instead of for each pull.
        """
        carries_expression = subscription.kind == TAG
        wants_large = limits.pull_messages > _LIMITS.pull_messages or limits.pull_bytes > _LIMITS.pull_bytes
        self._flags = PULL_SUSPEND | (PULL_SUBSCRIPTION if carries_expression else 0)
        self._header = PullMessageRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=limits.pull_messages,
            sys_flag=self._flags,
            commit_offset=0,
            suspend_timeout_millis=limits.pull_hold_ms,
            subscription=subscription.expression if carries_expression else None,
            sub_version=subscription.version,
            expression_type=subscription.kind,
            max_msg_bytes=limits.pull_bytes,
            rpc_broker_name=queue.broker_name,
            response_bytes_max=limits.pull_bytes if wants_large else None,
        )
        fields = self._header.to_fields()
        for name in _VARYING_FIELDS:
            fields.pop(name)
        self._frame_start = b'{"code":%d,"extFields":%b' % (_CODE, msgspec.json.encode(fields)[:-1])

    def encode_frame(self, opaque: int, offset: int, commit: int | None) -> bytes:
        """Encode the frame of a pull at `offset` that also commits `commit`. Only masters commit offsets."""
        flags = self._flags if commit is None else self._flags | PULL_COMMIT_OFFSET
        return join_frame(Serialization.JSON, self._frame_start + _FRAME_END % (commit or 0, offset, flags, opaque))

    def command(self, offset: int, commit: int | None) -> Command:
        """Build the request as a command, whose fields can be signed."""
        fields = self._header.to_fields()
        flags = self._flags if commit is None else self._flags | PULL_COMMIT_OFFSET
        fields |= {"commitOffset": str(commit or 0), "queueOffset": str(offset), "sysFlag": str(flags)}
        return Command(_CODE, fields=fields)


class PullResult(NamedTuple):
    """A decoded pull response."""

    status: PullStatus
    next_offset: int
    suggested_broker_id: int  # which broker of the same name to pull from next
    records: bytes
    queue_end: int = 0  # the offset that the queue's next message will get; 0: the broker did not say


def decode_pull_response(answer: Command, address: str) -> PullResult:
    """Decode a pull response. Raises BrokerError if the broker refused, or if a field is missing."""
    status = status_of(answer.code)
    if status in (PullStatus.FAILED, PullStatus.BROKER_BUSY):
        raise BrokerError(answer.code, answer.remark or "", address)
    fields = answer.fields
    try:
        next_offset, broker_id = int(fields["nextBeginOffset"]), int(fields["suggestWhichBrokerId"])
        queue_end = int(fields.get("maxOffset", 0))
    except (KeyError, ValueError) as error:
        raise BrokerError(answer.code, f"the response does not say where to continue ({error}).", address) from error
    return PullResult(status, next_offset, broker_id, answer.body if status is PullStatus.FOUND else b"", queue_end)

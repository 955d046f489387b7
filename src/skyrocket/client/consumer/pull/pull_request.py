"""The request for more of a queue, and what its answer says. A frame is written once for each queue; offsets are put into it."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.pull.pull_policy import Outcome, outcome_of
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

_CODE: Final = int(RequestCode.PULL_MESSAGE)
_VARYING: Final = ("commitOffset", "queueOffset", "sysFlag")


class PullRequest:
    __slots__ = ("_before", "_flags", "_header")

    def __init__(self, group: str, queue: Queue, subscription: Subscription, limits: ConsumerLimits) -> None:
        """Tags are told with each pull, since a broker may have forgotten us a moment ago; an SQL92 expression is compiled
        once for a heartbeat, not for each pull."""
        tells = subscription.kind == TAG
        self._flags = PULL_SUSPEND | (PULL_SUBSCRIPTION if tells else 0)
        self._header = PullMessageRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=limits.pull_messages,
            sys_flag=self._flags,
            commit_offset=0,
            suspend_timeout_millis=limits.pull_hold_ms,
            subscription=subscription.expression if tells else None,
            sub_version=subscription.version,
            expression_type=subscription.kind,
            max_msg_bytes=limits.pull_bytes,
            rpc_broker_name=queue.broker_name,
        )
        fields = self._header.to_fields()
        for name in _VARYING:
            fields.pop(name)
        self._before = b'{"code":%d,"extFields":%b' % (_CODE, msgspec.json.encode(fields)[:-1])

    def frame(self, opaque: int, offset: int, commit: int | None) -> bytes:
        """`commit` is an offset to be kept for the group on this occasion; slaves keep none."""
        flags = self._flags if commit is None else self._flags | PULL_COMMIT_OFFSET
        return join_frame(Serialization.JSON, self._before + _REST % (commit or 0, offset, flags, opaque))

    def command(self, offset: int, commit: int | None) -> Command:
        """The same for who has to sign its fields."""
        fields = self._header.to_fields()
        flags = self._flags if commit is None else self._flags | PULL_COMMIT_OFFSET
        fields |= {"commitOffset": str(commit or 0), "queueOffset": str(offset), "sysFlag": str(flags)}
        return Command(_CODE, fields=fields)


_REST: Final = (
    b',"commitOffset":"%%d","queueOffset":"%%d","sysFlag":"%%d"},"flag":0,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)


class PullAnswer(NamedTuple):
    outcome: Outcome
    next_offset: int
    ask_broker_id: int  # which of the brokers of that name should be asked next
    records: bytes


def pull_answer(answer: Command, address: str) -> PullAnswer:
    """BrokerError when it is a no, or says less than it must."""
    outcome = outcome_of(answer.code)
    if outcome in (Outcome.FAILED, Outcome.BROKER_BUSY):
        raise BrokerError(answer.code, answer.remark or "", address)
    fields = answer.fields
    try:
        next_offset, broker_id = int(fields["nextBeginOffset"]), int(fields["suggestWhichBrokerId"])
    except (KeyError, ValueError) as error:
        raise BrokerError(answer.code, f"it does not say where to go on ({error}).", address) from error
    return PullAnswer(outcome, next_offset, broker_id, answer.body if outcome is Outcome.FOUND else b"")

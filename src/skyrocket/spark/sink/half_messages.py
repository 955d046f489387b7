"""The half messages of a staged batch: ends them with END_TRANSACTION, and finds out which of them were delivered.

Many ENDs are in flight at once, and each has its own result. The frame of an END is encoded once for each queue; only offsets
and ids differ.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session, client_error
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError
from skyrocket.protocol import versions
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import Serialization, join_frame
from skyrocket.protocol.headers import EndTransactionRequestHeader
from skyrocket.protocol.language import Language
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import HALF_TOPIC, TOOLS_GROUP
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.barrier import Barrier
from skyrocket.spark.sink.delivered_rows import find_delivered_rows, last_offsets
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.queue_scan import master_address
from skyrocket.spark.sink.retry_until import retry_until_answered
from skyrocket.spark.sink.row_ids import row_id

_CODE: Final = int(RequestCode.END_TRANSACTION)
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_SYSTEM_ERROR: Final = int(ResponseCode.SYSTEM_ERROR)
_DONE, _NOT_DONE, _GONE, _UNKNOWN = range(4)
_NO_HALF_MESSAGE: Final = ("There is no half message", "Find prepared transaction message failed")  # our broker's words, Apache's
_VARYING: Final = ("commitLogOffset", "tranStateTableOffset", "msgId")
_REST: Final = (
    b',"commitLogOffset":"%%d","tranStateTableOffset":"%%d","msgId":"%%b"},"flag":0,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)


Check = Callable[[], Awaitable[None]]
"""Raises an error if no further END may be sent."""


async def _check_nothing() -> None: ...


class EndResult(NamedTuple):
    """The half messages that were not ended, or perhaps not."""

    not_done: list[Handles]  # certainly not ended: the request was not sent, or the broker refused it
    unknown: list[Handles]  # the request was sent and got no answer, or one that says too little
    gone: Sequence[Handles] = ()  # the broker has no such half message: it expired, or it is not readable yet
    refusal: str = ""  # the last refusal of a broker
    failure: str = ""  # why the last request without an answer has none

    @property
    def left(self) -> list[Handles]:
        return [*self.not_done, *self.gone, *self.unknown]


def end_state(code: int, remark: str) -> int:
    """Return what the answer to an END says about its half message.

    RocketMQ has no code of its own for a half message that does not exist, only a remark. Other system errors may occur after the
    message was stored. Every other code is a refusal before that: the broker is busy, the group is not permitted, …
    """
    if code == _SUCCESS:
        return _DONE
    if code != _SYSTEM_ERROR:
        return _NOT_DONE
    return _GONE if remark.startswith(_NO_HALF_MESSAGE) else _UNKNOWN


class HalfMessages:
    """What `commit` does with half messages. Each request is retried as long as `retryTimeout` allows, except `end`."""

    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._group = options.wire(options.group)
        self._barrier = Barrier(session, options)
        self._offsets = QueueOffsets(session, TOOLS_GROUP)

    def now_ms(self) -> int:
        return self._session.now_ms()

    # --- what was delivered

    async def fetch_queue_ends(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return one past the last message of each queue, as of now. Later messages are at or after these offsets."""
        wanted = list(queues)
        return await retry_until_answered(
            self._session,
            self._options.cluster,
            "The ends of the topics' queues could not be read",
            lambda: last_offsets(self._session, wanted),
        )

    async def find_delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
        """Return the rows whose message is in one of these queues, at or after its offset in `starts`."""

        async def search() -> set[tuple[str, int]]:
            for queue in {queue.broker_name: queue for queue in starts}.values():
                await self._barrier.wait(queue)
            return await find_delivered_rows(self._session, starts, prefixes)

        what = "The queues could not be searched for rows that were already delivered"
        return await retry_until_answered(self._session, self._options.cluster, what, search)

    async def find_expired(self, handles: Sequence[Handles]) -> list[Handles]:
        """Return those of these half messages that are older than everything that their broker keeps."""
        brokers = {each.queue.broker_name: each.queue for each in handles}

        async def ask() -> dict[str, int]:
            for queue in brokers.values():
                await master_address(self._session, queue)
            return {name: await self._offsets.min_offset(Queue(HALF_TOPIC, name, 0)) for name in brokers}

        what = "The start of the queue of half messages could not be read"
        firsts = await retry_until_answered(self._session, self._options.cluster, what, ask)
        found = [each.select(each.half_offsets < firsts[each.queue.broker_name]) for each in handles]
        return [each for each in found if len(each.rows)]

    # --- END_TRANSACTION

    async def end(self, handles: Sequence[Handles], outcome: Outcome, check: Check = _check_nothing) -> EndResult:
        """Send one END for each half message, and wait for the answers. Call `check` first, and again while ENDs wait."""
        states = [np.full(len(each.rows), _NOT_DONE, np.int8) for each in handles]
        requests = _EndRequests(states, self._options.in_flight_max, check)
        await check()
        lost: set[str] = set()  # brokers that cannot be reached: no END is sent to them
        for number, each in enumerate(handles):
            broker = each.queue.broker_name
            if broker not in lost:
                failure = await self._send(number, each, outcome, requests)
                if failure:
                    lost.add(broker)
                    requests.failure = failure
        await requests.wait(0)

        def with_state(wanted: int) -> list[Handles]:
            return [each.select(state == wanted) for each, state in zip(handles, states, strict=True) if wanted in state]

        return EndResult(
            with_state(_NOT_DONE),
            with_state(_UNKNOWN),
            with_state(_GONE),
            requests.refusal,
            requests.failure,
        )

    async def _send(self, number: int, handles: Handles, outcome: Outcome, requests: _EndRequests) -> str:
        """Send the ENDs of one queue. Return why the remaining ones were not sent, or an empty string."""
        try:
            connection, address = await self._connection(handles)
        except ClientError as error:
            return str(error)
        frames = _EndFrame(self._group, handles, outcome)
        signs = self._session.options.credentials is not None
        columns = (handles.rows, handles.physical_offsets, handles.half_offsets)
        for at, (row, physical, half) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if not connection.is_open:
                return f"The connection to {address} was closed."
            opaque = connection.next_opaque()
            if signs:
                command = self._session.sign(frames.command(row, physical, half))
                command.opaque = opaque
                frame = encode_command(command)
            else:
                frame = frames.frame(opaque, row, physical, half)
            answer = connection.request_frame(opaque, frame, self._session.now_ms() + self._options.send_ms)
            await requests.add(number, at, answer, address)
        return ""

    async def _connection(self, handles: Handles) -> tuple[Connection, str]:
        address = await master_address(self._session, handles.queue)
        return await self._session.connection(address, self._session.now_ms() + self._options.send_ms), address


class _EndRequests:
    """The ENDs in flight, and the state of all."""

    def __init__(self, states: list[NDArray[np.int8]], in_flight_max: int, check: Check) -> None:
        self.refusal = ""
        self.failure = ""
        self._states = states
        self._in_flight_max = in_flight_max
        self._check = check
        self._in_flight: deque[tuple[int, int, asyncio.Future[Command], str]] = deque()

    async def add(self, number: int, at: int, answer: asyncio.Future[Command], address: str) -> None:
        self._in_flight.append((number, at, answer, address))
        self._states[number][at] = _UNKNOWN
        if len(self._in_flight) >= self._in_flight_max:
            await self.wait(self._in_flight_max // 2)
            await self._check()

    async def wait(self, left: int) -> None:
        """Wait until at most `left` ENDs are in flight."""
        while len(self._in_flight) > left:
            number, at, answer, address = self._in_flight.popleft()
            try:
                response = await answer
            except NetError as error:
                self.failure = str(client_error(error))
                continue
            state = self._states[number][at] = end_state(response.code, response.remark or "")
            if state != _DONE:
                self.refusal = str(BrokerError(response.code, response.remark or "", address))


class _EndFrame:
    """Encodes the ENDs of one queue's half messages."""

    def __init__(self, group: str, handles: Handles, outcome: Outcome) -> None:
        self._prefix = handles.prefix
        self._header = EndTransactionRequestHeader(
            topic=handles.queue.topic,
            producer_group=group,
            tran_state_table_offset=0,
            commit_log_offset=0,
            commit_or_rollback=outcome.value,
            from_transaction_check=False,
            msg_id="",
            rpc_broker_name=handles.queue.broker_name,
        )
        fields = self._header.to_fields()
        for name in _VARYING:
            fields.pop(name, None)
        self._before = b'{"code":%d,"extFields":%b' % (_CODE, msgspec.json.encode(fields)[:-1])

    def frame(self, opaque: int, row: int, physical_offset: int, half_offset: int) -> bytes:
        message_id = row_id(self._prefix, row).encode()
        return join_frame(Serialization.JSON, self._before + _REST % (physical_offset, half_offset, message_id, opaque))

    def command(self, row: int, physical_offset: int, half_offset: int) -> Command:
        """Return the request of `frame` as a command, whose fields can be signed."""
        varying = (str(physical_offset), str(half_offset), row_id(self._prefix, row))
        return Command(_CODE, fields=self._header.to_fields() | dict(zip(_VARYING, varying, strict=True)))

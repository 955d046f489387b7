"""END_TRANSACTION for many half messages: under way many at once, each answered, and what became of each.

A frame is written once for each queue; offsets and id are put into it.

The half messages of a cluster, for `committing`: ended, counted, looked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

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
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.barrier import Barrier
from skyrocket.spark.sink.delivered_rows import delivered_rows, last_offsets
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.queue_scan import master_address
from skyrocket.spark.sink.retry_until import until_answered
from skyrocket.spark.sink.row_ids import row_id

_CODE: Final = int(RequestCode.END_TRANSACTION)
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_DONE, _NOT_DONE, _UNKNOWN = 0, 1, 2


class Ended(NamedTuple):
    """What is not done: certainly not (it never left, or the broker said no), or perhaps."""

    not_done: list[Handles]
    unknown: list[Handles]
    refusal: str = ""  # the last no of a broker
    trouble: str = ""  # why the last one without an answer has none


class Ending:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._group = options.wire(options.group)

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended:
        ends = _Ends([np.full(len(each.rows), _NOT_DONE, np.int8) for each in handles], self._options.in_flight_max)
        lost: set[str] = set()  # brokers that could not be reached: what is theirs never left
        for number, each in enumerate(handles):
            broker = each.queue.broker_name
            if broker not in lost:
                trouble = await self._send(number, each, outcome, ends)
                if trouble:
                    lost.add(broker)
                    ends.trouble = trouble
        await ends.settle(0)
        return Ended(
            [each.chosen(state == _NOT_DONE) for each, state in zip(handles, ends.states, strict=True) if _NOT_DONE in state],
            [each.chosen(state == _UNKNOWN) for each, state in zip(handles, ends.states, strict=True) if _UNKNOWN in state],
            ends.refusal,
            ends.trouble,
        )

    async def _send(self, number: int, handles: Handles, outcome: Outcome, ends: _Ends) -> str:
        """Of one queue. Why the rest of them did not leave, if they did not."""
        try:
            connection, address = await self._connection(handles)
        except ClientError as error:
            return str(error)
        frames = _EndFrame(self._group, handles, outcome)
        signs = self._session.options.credentials is not None
        columns = (handles.rows, handles.physical_offsets, handles.half_offsets)
        for at, (row, physical, half) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if not connection.is_open:
                return f"The connection to {address} ended."
            opaque = connection.next_opaque()
            if signs:
                command = self._session.sign(frames.command(row, physical, half))
                command.opaque = opaque
                frame = encode_command(command)
            else:
                frame = frames.frame(opaque, row, physical, half)
            answer = connection.request_frame(opaque, frame, self._session.now_ms() + self._options.send_ms)
            await ends.add(number, at, answer, address)
        return ""

    async def _connection(self, handles: Handles) -> tuple[Connection, str]:
        address = await master_address(self._session, handles.queue)
        return await self._session.connection(address, self._session.now_ms() + self._options.send_ms), address


class _Ends:
    """Those under way, and what is known of all."""

    def __init__(self, states: list[NDArray[np.int8]], in_flight_max: int) -> None:
        self.states = states
        self.refusal = ""
        self.trouble = ""
        self._in_flight_max = in_flight_max
        self._under_way: deque[tuple[int, int, asyncio.Future[Command], str]] = deque()

    async def add(self, number: int, at: int, answer: asyncio.Future[Command], address: str) -> None:
        self._under_way.append((number, at, answer, address))
        self.states[number][at] = _UNKNOWN
        if len(self._under_way) >= self._in_flight_max:
            await self.settle(self._in_flight_max // 2)

    async def settle(self, left: int) -> None:
        while len(self._under_way) > left:
            number, at, answer, address = self._under_way.popleft()
            try:
                told = await answer
            except NetError as error:
                self.trouble = str(client_error(error))
                continue
            if told.code == _SUCCESS:
                self.states[number][at] = _DONE
            else:
                self.states[number][at] = _NOT_DONE
                self.refusal = str(BrokerError(told.code, told.remark or "", address))


class _EndFrame:
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
        """The same for who has to sign its fields."""
        varying = (str(physical_offset), str(half_offset), row_id(self._prefix, row))
        return Command(_CODE, fields=self._header.to_fields() | dict(zip(_VARYING, varying, strict=True)))


_VARYING: Final = ("commitLogOffset", "tranStateTableOffset", "msgId")
_REST: Final = (
    b',"commitLogOffset":"%%d","tranStateTableOffset":"%%d","msgId":"%%b"},"flag":0,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)


class ClusterHalves:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._cluster = options.cluster
        self._ending = Ending(session, options)
        self._barrier = Barrier(session, options)

    def now_ms(self) -> int:
        return self._session.now_ms()

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended:
        return await self._ending.end(handles, outcome)

    async def ends_of_queues(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """One past the last message of each, as they are now; what comes later is at or behind these."""
        wanted = list(queues)
        return await until_answered(
            self._session,
            self._cluster,
            "The ends of the topics' queues could not be found out",
            lambda: last_offsets(self._session, wanted),
        )

    async def delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
        """Rows whose message is in one of these queues, at or behind its offset."""

        async def look() -> set[tuple[str, int]]:
            for queue in {queue.broker_name: queue for queue in starts}.values():
                await self._barrier.passed(queue)
            return await delivered_rows(self._session, starts, prefixes)

        what = "Which rows were delivered already could not be found out"
        return await until_answered(self._session, self._cluster, what, look)

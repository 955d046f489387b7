"""The trace dispatcher: collects rows of RocketMQ's message trace and sends them to the trace topic in the background.

    append(rows)     from any thread; never waits
    start, close     `close` sends what is there, for at most 5 s

Rows share messages: a message is sent when 100 rows wait, and after half a second. A send that fails is logged, and its rows are
lost: a trace must not hold up what it traces. When 4,096 rows wait, further ones are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message
from skyrocket.protocol.message.trace import TraceRow, encode_trace, keys_of

log = logging.getLogger(__name__)

WAITING_ROWS_MAX: Final = 4_096
MESSAGE_ROWS_MAX: Final = 100
MESSAGE_BYTES_MAX: Final = 128_000  # Apache's client has the same bound
MESSAGE_KEYS_BYTES_MAX: Final = 16_000  # keys are a property, and properties have 32,767 bytes
FLUSH_MS: Final = 500
CLOSE_MS: Final = 5_000


class TraceBuffer:
    """The rows that wait, and the messages that they become. Appending is safe in any thread."""

    def __init__(self, rows_max: int = WAITING_ROWS_MAX) -> None:
        self._rows: deque[TraceRow] = deque()
        self._rows_max = rows_max
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, rows: Sequence[TraceRow]) -> None:
        room = max(0, self._rows_max - len(self._rows))
        self._rows.extend(rows[:room])
        self.dropped += max(0, len(rows) - room)

    def take(self) -> tuple[bytes, list[str]] | None:
        """Take the rows of the next message. Returns its body and its keys, or None when no row waits."""
        bodies: list[bytes] = []
        keys: set[str] = set()
        size_bytes = keys_bytes = 0
        while self._rows and len(bodies) < MESSAGE_ROWS_MAX:
            body, added = encode_trace([self._rows[0]]).encode(), keys_of(self._rows[0]) - keys
            added_bytes = sum(len(key.encode()) + 1 for key in added)
            is_full = size_bytes + len(body) > MESSAGE_BYTES_MAX or keys_bytes + added_bytes > MESSAGE_KEYS_BYTES_MAX
            if bodies and is_full:
                break
            self._rows.popleft()
            bodies.append(body)
            keys |= added
            size_bytes, keys_bytes = size_bytes + len(body), keys_bytes + added_bytes
        return (b"".join(bodies), sorted(keys)) if bodies else None


class TraceSender(Protocol):
    """What the dispatcher needs of a producer."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def send(self, message: Message) -> Any: ...


class TraceDispatcher:
    """Sends rows to the trace topic with a producer of its own."""

    def __init__(self, topic: str, sender: TraceSender) -> None:
        self.topic = topic
        self._sender = sender
        self._buffer = TraceBuffer()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._is_waking = False
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._reported = 0

    async def start(self) -> None:
        if self._task is not None:
            return
        await self._sender.start()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    def append(self, rows: Sequence[TraceRow]) -> None:
        """Add rows. Any thread may call it; it never waits."""
        self._buffer.append(rows)
        if len(self._buffer) >= MESSAGE_ROWS_MAX and not self._is_waking and self._loop is not None:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._wake.set)

    @property
    def dropped(self) -> int:
        """How many rows were dropped because too many waited."""
        return self._buffer.dropped

    async def _run(self) -> None:
        while not self._closing:
            try:
                async with asyncio.timeout(FLUSH_MS / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            self._is_waking = False
            await self._flush()
        await self._flush()  # what came before the first round, or after a failed send

    async def _flush(self) -> None:
        while (next_message := self._buffer.take()) is not None:
            body, keys = next_message
            try:
                await self._sender.send(Message(self.topic, body, keys=keys))
            except ClientError as error:
                log.warning("Traces could not be sent to topic '%s' and are lost: %s", self.topic, error)
                return  # the next attempt comes with the next round
        if self._buffer.dropped > self._reported:
            log.warning("%d rows of the message trace were dropped: too many waited.", self._buffer.dropped - self._reported)
            self._reported = self._buffer.dropped

    async def close(self) -> None:
        """Send what waits, for at most `CLOSE_MS`, and release the producer."""
        if self._task is None:
            return
        self._closing = True
        self._wake.set()
        _, late = await asyncio.wait([self._task], timeout=CLOSE_MS / 1000)
        for task in late:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            log.warning("%d rows of the message trace could not be sent before the client closed.", len(self._buffer))
        self._task = None
        await self._sender.close()

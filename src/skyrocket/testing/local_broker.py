"""A nameserver and a broker in this process, for tests: free ports, a temporary store, and a clock that tests can advance.

    async with LocalBroker() as broker:
        async with Producer(broker.nameserver) as producer:
            await producer.send(Message("orders", b"later", delay_level=3))
        await broker.advance(10)
        assert len(await broker.messages("orders")) == 1

It is the real broker, with smaller files, which `close` deletes.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from skyrocket.broker.broker import Broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.client.received import Received
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.message.properties import RETRY_TOPIC
from skyrocket.protocol.message.record import decode_record
from skyrocket.testing.clock import Clock, duration_ms

SMALL: Final = BrokerSettings(
    port=0,
    segment_bytes=16 * 1024 * 1024,
    queue_file_bytes=20 * 2_000,
    index_slots=1_000,
    index_entries=4_000,
    timer_wheel_slots=7 * 24 * 3600,
    timer_log_file_bytes=256 * 1024,
    disk_max_used_percent=95,
    disk_clean_forcibly_percent=95,
    disk_warning_percent=95,
    refuse_late=False,  # a machine that runs tests may be slow
)
_PAGE: Final = 256  # messages per read
_STEP_MS: Final = 1_000  # advance the clock in such steps, so that periodic jobs run
_STEPS_MAX: Final = 200
_SETTLE_S: Final = 0.002
_POLL_S: Final = 0.005
_REGISTERED_S_MAX: Final = 30.0


class LocalBroker:
    """A nameserver and a broker for one event loop. Use `async with`, or `start` and `close`.

    `settings` has settings of broker.conf by Apache's names, such as {"enablePropertyFilter": "true"}.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, *, folder: Path | str | None = None) -> None:
        """Store files in `folder` and keep them, or in a temporary folder if it is None."""
        self.clock = Clock()
        self._settings = SMALL.with_texts(settings or {})
        self._folder = None if folder is None else Path(folder)
        self._temporary: str | None = None
        self._nameserver: Nameserver | None = None
        self._broker: Broker | None = None

    # --- start and close

    async def start(self) -> None:
        if self._broker is not None:
            return
        if self._folder is None:
            self._temporary = tempfile.mkdtemp(prefix="skyrocket-")
        folder = self._folder or Path(self._temporary or "")
        files = {"kvConfigPath": str(folder / "kvConfig.json"), "configStorePath": str(folder / "namesrv.properties")}
        nameserver = Nameserver(NameserverSettings().with_texts({"listenPort": "0", **files}))
        await nameserver.start()
        self._nameserver = nameserver
        places = {"namesrvAddr": nameserver.address, "storePathRootDir": str(folder / "store")}
        self._broker = Broker(self._settings.with_texts(places), wall_ms=self.clock)
        try:
            await self._broker.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close()
        nameserver, self._nameserver = self._nameserver, None
        if nameserver is not None:
            await nameserver.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- addresses

    @property
    def nameserver(self) -> str:
        """The nameserver's address, host:port, for clients."""
        if self._nameserver is None:
            raise RuntimeError("The broker was not started: use `async with`, or call start().")
        return self._nameserver.address

    @property
    def address(self) -> str:
        """The broker's address, host:port."""
        return self.broker.settings().address

    @property
    def broker(self) -> Broker:
        """The broker itself, for operations that this class does not have."""
        if self._broker is None:
            raise RuntimeError("The broker was not started: use `async with`, or call start().")
        return self._broker

    # --- operations for tests

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic, and wait until clients can find it. Most tests need not: the first message creates its topic."""
        self.broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))
        assert self._nameserver is not None
        async with asyncio.timeout(_REGISTERED_S_MAX):
            while self._nameserver.table.route(topic) is None:  # noqa: ASYNC110 — the broker registers it soon
                await asyncio.sleep(_POLL_S)

    async def messages(self, topic: str, *, at_least: int = 0, timeout_s: float = 10.0) -> list[Received]:
        """Return all messages of a topic that consumers can see, queue by queue, in order of offset. An unknown topic has none.

        With `at_least`, wait until there are that many, or raise TimeoutError. A group's retries are in topic `%RETRY%group`, its
        dead letters in `%DLQ%group`.
        """
        deadline = time.monotonic() + timeout_s
        while len(found := self._read_messages(topic)) < at_least:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Topic '{topic}' has {len(found)} messages after {timeout_s} s, not {at_least}.")
            await asyncio.sleep(_POLL_S)
        return found

    def _read_messages(self, topic: str) -> list[Received]:
        broker = self.broker
        config = broker.topics.get(topic)
        name = broker.settings().broker_name
        found: list[Received] = []
        for queue_id in range(0 if config is None else max(config.read_queue_nums, config.write_queue_nums)):
            offset = 0
            while (page := broker.store.reading.messages(topic, queue_id, offset, _PAGE)).next_offset > offset:
                found += [Received(decode_record(bytes(view)), broker_name=name) for view in page.records]
                offset = page.next_offset
        for message in found:
            message.topic = message.properties.get(RETRY_TOPIC, topic)
        return found

    async def advance(self, duration: timedelta | float) -> None:
        """Advance the broker's clock, by seconds or a timedelta.

        When this returns, the broker has done everything that was due by then: deliver delayed and timed messages and retries,
        and send transaction checks. Clients may not have reacted yet.
        """
        left_ms = duration_ms(duration)
        step_ms = max(_STEP_MS, left_ms // _STEPS_MAX)
        while left_ms > 0:
            self.clock.advance(min(step_ms, left_ms))
            left_ms -= step_ms
            await self._settle()

    async def _settle(self) -> None:
        """Wait until the broker appends no more messages that were due."""
        log, last = self.broker.store.log, -1
        while log.end != last:
            last = log.end
            self.broker.scheduler.clock_changed()
            await asyncio.sleep(_SETTLE_S)

"""A slave copies the tables of its master: topics and groups, and the progress of consumers, delays and timers.

    every SYNC_MS, and as soon as a nameserver names the master:
        the end of the master's log (907)            messages before it, of topics that are gone, are deleted
        topics (21), groups (201)                    replace the slave's tables, unless it is known to have this version
        users (3005) and rules (3010)                replace the slave's, with access control
        offsets (43), delay levels (45), timers (60, 61), then the end of the master's log (907)
                                                     count once the slave's log has reached that end

Progress says what the master has done: it has delivered a delayed message, say, or renewed a half message. The records of that
are in its log. A slave that took the progress, but not yet the log, and then became master, would skip those messages. So
progress waits until the log is there. (Apache's slave takes it at once.)

Tables are copied only while the log is: then this log is known to be a part of the master's. A master that has lost its disk has
empty tables, and a slave that took them would delete the queues of every topic.

Each step that fails is logged once, and the others go on. While no master is known, nothing is copied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from skyrocket.auth.errors import AccessError
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.delay.install import DelayParts
from skyrocket.broker.errors import TableError
from skyrocket.broker.replication.table_pages import TablePages, TrustedVersion
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.bodies import (
    ConsumerOffsetManager,
    DelayOffsetSerializeWrapper,
    HARuntimeInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TimerMetricsSerializeWrapper,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import (
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreError
from skyrocket.store.timers.timer_checkpoint import APACHE, TimerCheckpoint
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)
outside = OutsideLog(log)

SYNC_MS: Final = 10_000
REQUEST_MS: Final = 30_000
COPYING_POLL_MS: Final = 50  # between two looks whether the log is copied
LOG_POLL_MS: Final = 20  # between two looks whether the log has arrived
OFFSETS_AT_ONCE: Final = 5_000  # keys that one turn of the event loop takes

B = TypeVar("B")


class MasterRefusedError(Exception):
    """The master does not answer a request for one of its tables, or not with that table."""


class Progress(NamedTuple):
    """What the master has done, and the end of its log when it had."""

    log_end: int
    offsets: ConsumerOffsetManager | None
    delays: DelayOffsetSerializeWrapper | None
    timers: TimerCheckpoint | None
    timer_counts: TimerMetricsSerializeWrapper | None


class MetadataSync:
    """Slave work: `start` when the broker is a slave, `stop` when it is not any more."""

    def __init__(
        self,
        context: BrokerContext,
        dialer: Dialer,
        delay: DelayParts,
        is_copying: Callable[[], bool],
        sync_ms: int = SYNC_MS,
    ) -> None:
        """`is_copying` says whether this slave copies the master's log now."""
        self._is_copying = is_copying
        self._context = context
        self._dialer = dialer
        self._delay = delay
        self._sync_ms = sync_ms
        self._master_changed = asyncio.Event()
        self._failing: set[str] = set()  # steps that failed the last time: logged once
        self._topics_version = TrustedVersion()
        self._groups_version = TrustedVersion()
        self._gone_topics: dict[str, int] = {}  # deleted by the master, and where its log ended before it was asked for topics
        self._task: SupervisedTask | None = None
        self.rounds = 0  # that have ended
        context.known_master.on_address.append(lambda _: self._master_changed.set())

    def start(self) -> None:
        self._task = SupervisedTask("copy of the master's tables", self._run)

    async def stop(self) -> None:
        if self._task is not None:
            await self._task.close()
            self._task = None

    async def _run(self) -> None:
        while True:
            self._master_changed.clear()
            address = self._context.known_master.address
            if address is not None:
                while not self._is_copying():  # noqa: ASYNC110 — a connection comes and goes without a notice
                    await asyncio.sleep(COPYING_POLL_MS / 1000)
                await self._copy_all(self._context.known_master.address or address)
                self.rounds += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sync_ms / 1000):
                    await self._master_changed.wait()

    async def _copy_all(self, address: str) -> None:
        log_end = await self._fetch_log_end(address)
        await self._try("topics", self._copy_topics(address, log_end))
        await self._try("groups", self._copy_groups(address))
        await self._try("users and rules", self._context.access.follow(partial(self._ask_fields, address)))
        progress = await self._fetch_progress(address)
        if await self._wait_for_log(progress.log_end):
            await self._try("progress", self._take(progress))
            await self._try("deletions", self._delete_queues())

    async def _try(self, step: str, work: Awaitable[B]) -> B | None:
        """Return the result of a step; None when it failed."""
        try:
            result = await work
        except (NetError, ProtocolError, MasterRefusedError, TableError, StoreError, AccessError, OSError) as error:
            if step not in self._failing:
                outside.warning("The %s of the master could not be copied; the slave tries again: %s", step, error)
                self._failing.add(step)
            return None
        self._failing.discard(step)
        return result

    # --- topics and groups

    async def _copy_topics(self, address: str, log_end: int) -> None:
        topics = self._context.topics
        own_version = topics.version
        pages: TablePages[TopicConfig] = TablePages(self._topics_version.of(own_version))
        body, is_more = TopicConfigAndMappingSerializeWrapper(), True
        while is_more:
            first, most, version = pages.request_fields()
            header = GetAllTopicConfigRequestHeader(topic_seq=first, max_topic_num=most, data_version=version)
            response = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, header)
            body = await _decode(response, TopicConfigAndMappingSerializeWrapper)
            total = response.header(GetAllTopicConfigResponseHeader).total_topic_num
            is_more = pages.add(body.topic_config_table, body.data_version, total)
        if pages.table is not None:
            body.topic_config_table = pages.table
            self._gone_topics.update(dict.fromkeys(topics.follow(body), log_end))
            self._topics_version.record_fetch(own_version, pages.version)

    async def _copy_groups(self, address: str) -> None:
        groups = self._context.groups
        own_version = groups.version
        pages: TablePages[SubscriptionGroupConfig] = TablePages(self._groups_version.of(own_version))
        forbidden: dict[str, dict[str, int]] = {}
        body, is_more = SubscriptionGroupWrapper(), True
        while is_more:
            first, most, version = pages.request_fields()
            header = GetAllSubscriptionGroupRequestHeader(group_seq=first, max_group_num=most, data_version=version)
            response = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            body = await _decode(response, SubscriptionGroupWrapper)
            forbidden = {**(forbidden if first else {}), **body.forbidden_table}
            total = response.header(GetAllSubscriptionGroupResponseHeader).total_group_num
            is_more = pages.add(body.subscription_group_table, body.data_version, total)
        if pages.table is not None:
            body.subscription_group_table, body.forbidden_table = pages.table, forbidden
            groups.follow(body)
            self._groups_version.record_fetch(own_version, pages.version)

    # --- progress

    async def _fetch_progress(self, address: str) -> Progress:
        ask = self._fetch
        offsets = await ask(address, "offsets", RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetManager)
        delays = await ask(address, "delay progress", RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetSerializeWrapper)
        timers: TimerCheckpoint | None = None
        counts: TimerMetricsSerializeWrapper | None = None
        if self._delay.timers is not None:
            timers = await self._try("timer progress", self._fetch_timers(address))
            counts = await ask(address, "timer counts", RequestCode.GET_TIMER_METRICS, TimerMetricsSerializeWrapper)
        # The last request: the log has the records of all progress before its answer.
        return Progress(await self._fetch_log_end(address), offsets, delays, timers, counts)

    async def _fetch_log_end(self, address: str) -> int:
        """Return where the master's log ends; 0 when it is of an older version, which does not say it."""
        status = await self._fetch(address, "state of replication", RequestCode.GET_BROKER_HA_STATUS, HARuntimeInfo)
        return 0 if status is None else status.master_commit_log_max_offset

    async def _fetch(self, address: str, step: str, code: int, body_type: type[B]) -> B | None:
        async def work() -> B:
            return await _decode(await self._ask(address, code), body_type)

        return await self._try(step, work())

    async def _fetch_timers(self, address: str) -> TimerCheckpoint:
        body = (await self._ask(address, RequestCode.GET_TIMER_CHECK_POINT)).body
        if len(body) != APACHE.size:
            raise MasterRefusedError(f"the timer checkpoint has {len(body)} bytes instead of {APACHE.size}.")
        return TimerCheckpoint(*APACHE.unpack(body))

    async def _wait_for_log(self, end: int) -> bool:
        """Wait until this log has reached `end`, for one round at most. Return whether it has."""
        store, loop = self._context.store, asyncio.get_running_loop()
        until_s = loop.time() + self._sync_ms / 1000
        while store.horizon.confirmed < end:  # what is only appended may be cut off again under another leader
            if loop.time() > until_s:
                return False
            await asyncio.sleep(LOG_POLL_MS / 1000)
        return True

    async def _take(self, progress: Progress) -> None:
        context = self._context
        if progress.offsets is not None:
            keys = iter(progress.offsets.offset_table.items())
            while some := list(islice(keys, OFFSETS_AT_ONCE)):
                context.offsets.follow(some)
                await asyncio.sleep(0)
            context.offsets.retain(progress.offsets.offset_table)
            context.offsets.version = progress.offsets.data_version or context.offsets.version
        if progress.delays is not None:
            context.delay_progress.follow(progress.delays)
        if progress.timer_counts is not None:
            context.timer_metrics.follow(progress.timer_counts)
        if progress.timers is not None and progress.timers.read_ms and self._delay.timers is not None:
            job = self._delay.timers.delivery.follow(progress.timers, context.machine_ms())
            await asyncio.to_thread(job.run)

    async def _delete_queues(self) -> None:
        """Delete the queues of topics that the master has deleted, unless they have messages of a topic that exists again."""
        store = self._context.store
        gone, self._gone_topics = self._gone_topics, {}
        for topic, log_end in gone.items():
            queues = [queue for key, queue in store.queues if key.topic == topic]
            last = [entry for queue in queues if (entry := queue.entry(queue.max_offset - 1)) is not None]
            if queues and topic not in self._context.topics and all(entry.physical_offset < log_end for entry in last):
                await asyncio.to_thread(store.delete_topic(topic, log_end))

    # --- requests

    async def _ask(self, address: str, code: int, header: Header | None = None) -> Command:
        return await self._ask_fields(address, code, {} if header is None else header.to_fields())

    async def _ask_fields(self, address: str, code: int, fields: dict[str, str]) -> Command:
        response = await self._dialer.request(address, Command(code, fields=fields), REQUEST_MS)
        if response.code != ResponseCode.SUCCESS:
            raise MasterRefusedError(f"{address} answers request {code} with {response.code}: {response.remark}")
        return response


async def _decode(response: Command, body_type: type[B]) -> B:
    """Decode a body in a thread: a large table takes longer than the loop may stop for."""
    decoded: B = await asyncio.to_thread(decode, response.body, body_type)
    return decoded

"""The broker: puts its parts together, starts them in order, and stops them in the reverse.

lock and recover the store → tables from their files → listen → register with the nameservers
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from skyrocket.broker.admin.broker import BrokerHandlers
from skyrocket.broker.admin.consume_progress import ProgressHandlers
from skyrocket.broker.admin.messages import QueryHandlers
from skyrocket.broker.admin.reset_offsets import ResetHandlers
from skyrocket.broker.admin.statistics import StatisticsHandlers
from skyrocket.broker.admin.subscription_groups import GroupHandlers
from skyrocket.broker.admin.topics import TopicHandlers
from skyrocket.broker.clients.heartbeats import ClientHandlers
from skyrocket.broker.clients.offsets import OffsetHandlers
from skyrocket.broker.clients.queue_locking import LockHandlers
from skyrocket.broker.clients.relay import RelayHandlers
from skyrocket.broker.delay.level_progress import DelayProgress
from skyrocket.broker.delay.levels import Schedule
from skyrocket.broker.delay.recall import RecallHandler
from skyrocket.broker.delay.timer_checkpointing import TimerKeeper
from skyrocket.broker.delay.timer_delivery import TimerDelivery
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.delay.timers import TIMER_PROPERTIES, Timers
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.load.flow_control import FlowControl
from skyrocket.broker.load.slow_consumers import SlowConsumers, SlowConsumerWatch
from skyrocket.broker.nameserver_registration import Registration
from skyrocket.broker.persistence import Persistence
from skyrocket.broker.pull.checks import PullChecks
from skyrocket.broker.pull.fast_path import OrdinaryPulls
from skyrocket.broker.pull.filters import Filters
from skyrocket.broker.pull.handler import PullHandler
from skyrocket.broker.request_reply import ReplyHandlers
from skyrocket.broker.retry import Retry
from skyrocket.broker.scheduler import Clockwork
from skyrocket.broker.send.fast_path import OrdinarySends
from skyrocket.broker.send.handler import SendHandler
from skyrocket.broker.send.internal_writer import OwnMessages
from skyrocket.broker.send.redirects import Detours
from skyrocket.broker.send.validation import Intake
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.clients import ClientTable
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.queue_locks import QueueLocks
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.broker.transactions.checker import TransactionChecks
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.records import half_detour, half_short_cut
from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server, monotonic_ms
from skyrocket.net.tls import server_context
from skyrocket.protocol.bodies import DataVersion, TopicConfig
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import DELAY_LEVEL, TRANSACTION_PREPARED
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from skyrocket.settings.live import LiveSettings
from skyrocket.store.config import delay_levels_ms
from skyrocket.store.config_files import DELAY_OFFSETS, TIMER_METRICS, ConfigFiles
from skyrocket.store.errors import DiskFullError, StoreError, TooLargeError, WritesStoppedError
from skyrocket.store.files import Disk, Files
from skyrocket.store.flusher import Flusher
from skyrocket.store.message_store import MessageStore
from skyrocket.store.recovery.recovery import Recovered
from skyrocket.store.timers.timer_index import TimerIndex, TimerSizes

log = logging.getLogger(__name__)

TICK_MS = 100  # how often waiting pulls and parked answers are looked at
SLOW_TICK_MS = 10_000  # how often clients, locks and the disk are
HOUR_MS = 3_600_000
VIP_PORT_BELOW = 2  # Apache's clients know a second port, two below the first

STORE_CODES: dict[type[Exception], ResponseCode] = {
    StoreError: ResponseCode.SYSTEM_ERROR,
    DiskFullError: ResponseCode.SERVICE_NOT_AVAILABLE,
    WritesStoppedError: ResponseCode.SERVICE_NOT_AVAILABLE,
    TooLargeError: ResponseCode.MESSAGE_ILLEGAL,
}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Broker:
    def __init__(
        self,
        settings: BrokerSettings,
        limits: NetLimits | None = None,
        wall_ms: Callable[[], int] = wall_ms,
        files: Files | None = None,
    ) -> None:
        """`wall_ms` is what messages are stamped and delayed by, `files` where they lie: a test may have its own."""
        self._wall_ms = wall_ms
        self.settings = LiveSettings(settings)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-store")
        self._files = files or Disk()
        self.store = MessageStore(settings.store_path, settings.store_config(), files=self._files, background=self._background)
        self.topics = TopicTable(self.settings, wall_ms)
        self.groups = SubscriptionGroupTable(self.settings, wall_ms)
        self.offsets = ConsumerOffsets(wall_ms)
        self.clients: ClientTable[Connection] = ClientTable()
        self.locks = QueueLocks()
        self.counters = Counters(wall_ms)
        self.flow_control = FlowControl(self.settings)
        self.slow_consumers = SlowConsumers()
        self.detours = Detours()
        self.clockwork = Clockwork(wall_ms)
        self._on_grown: dict[str, Callable[[int], None]] = {}  # by topic: whom to tell that one of its queues has more
        self._figures: list[Callable[[], dict[str, str]]] = []  # what parts tell in the broker's runtime information
        self.delays = DelayProgress(self._safe_position, wall_ms)
        config_files = ConfigFiles(self._files, self.store.paths.config)
        self.persistence = Persistence(config_files, self.topics, self.groups, self.offsets)
        self.persistence.keep(DELAY_OFFSETS, self.delays)
        self.timer_metrics = TimerMetrics(wall_ms)
        self.persistence.keep(TIMER_METRICS, self.timer_metrics)
        self.router = Router(STORE_CODES)
        tls = server_context(settings.tls_certificate, settings.tls_key)
        self.server = Server(self.router, limits, tls, tls_only=settings.tls_only)
        self._dialer = Dialer()
        self._flusher: Flusher | None = None
        self._transaction_checks: TransactionChecks | None = None
        self._timer_delivery: TimerDelivery | None = None
        self._timer_keeper: TimerKeeper | None = None
        self._registration: Registration | None = None
        self._ticks: asyncio.Task[None] | None = None
        self._last_slow_tick_ms = monotonic_ms()

    # --- starting and stopping

    async def start(self) -> Recovered:
        """Ready for clients when this returns. What recovery found is returned."""
        recovered = self.store.open()
        for sentence in (*recovered.sentences(), *self.persistence.load()):
            log.warning(sentence)
        self._flusher = Flusher(self.store, monotonic_ms, self._confirmed)
        await self._listen()
        self.persistence.start(lambda: self.settings().offsets_interval_ms)
        self._registration = Registration(self._dialer, self.settings, self._topics_now, self.topics.set_ordered)
        self.topics.on_change.append(self._registration.topics_changed)
        self._ticks = asyncio.get_running_loop().create_task(self._tick())
        self.clockwork.start()
        if self._timer_keeper is not None:
            self._timer_keeper.start()
        await self._registration.start()
        return recovered

    async def _listen(self) -> None:
        settings = self.settings()
        port = await self.server.listen(settings.host, settings.port)
        self.settings.replace(replace(settings, port=port))
        self._put_together()  # the port is part of message ids; nobody has been heard yet
        if settings.port > VIP_PORT_BELOW:  # not where the system chose the port: then nobody can know the other
            await self.server.listen(settings.host, port - VIP_PORT_BELOW)

    async def close(self) -> None:
        """Leave the nameservers, answer what was asked, and close the store so that the next start need not recover."""
        if self._registration is not None:
            await self._registration.close()
        if self._ticks is not None:
            self._ticks.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticks
        await self.clockwork.close()
        if self._timer_keeper is not None:
            await self._timer_keeper.close()
        await self.server.close()
        if self._transaction_checks is not None:
            self._transaction_checks.close(self._wall_ms())
        if self._flusher is not None:
            await self._flusher.close()
        if self._transaction_checks is not None:
            self._transaction_checks.publish()
        await self.persistence.close()
        if self._timer_delivery is not None:
            self._timer_delivery.close(self._wall_ms())
        await self._dialer.close()
        self.store.close()
        self._background.shutdown()

    # --- the parts

    def _put_together(self) -> None:
        settings = self.settings()
        store_host = pack_host(settings.advertised_host or settings.host, settings.port)
        intake = Intake(self.topics, self.settings, store_host, self.detours)
        self.own_messages = OwnMessages(self.store, self._wall_ms, self._appended, self.counters)
        self.send = SendHandler(self.store, intake, self.settings, store_host, self._wall_ms, self._appended, self.counters)
        ends = self._put_together_transactions(store_host)  # before what is delayed: both may claim a message
        ordinary_sends = OrdinarySends(
            self.store,
            self.topics,
            self.detours,
            self.settings,
            store_host,
            self._wall_ms,
            self._appended,
            self.counters,
            self.send,
            ends,
        )
        filters = Filters(self.settings)
        checks = PullChecks(self.topics, self.groups, self.clients, self.settings, filters)
        self.pull = PullHandler(
            self.store,
            checks,
            self.groups,
            self.clients,
            self.offsets,
            self.settings,
            monotonic_ms,
            self.counters,
            self.slow_consumers,
        )
        ordinary_pulls = OrdinaryPulls(self.store, checks, self.offsets, self.settings, monotonic_ms, self.pull)
        self._put_together_delays(store_host)
        store, live, rates = self.store, self.settings, self.counters
        topics, groups, offsets, clients = self.topics, self.groups, self.offsets, self.clients
        self._client_handlers = ClientHandlers(clients, groups, topics, monotonic_ms, self._wall_ms, filters)
        for part in (
            self.send,
            ordinary_sends,
            self.pull,
            ordinary_pulls,
            self._client_handlers,
            LockHandlers(self.locks, monotonic_ms),
            OffsetHandlers(offsets, topics, groups, clients, store),
            ResetHandlers(offsets, topics, groups, clients, store, live),
            ProgressHandlers(offsets, topics, groups, clients, store, live, self._wall_ms, rates),
            TopicHandlers(topics, offsets, clients, store, live, rates),
            GroupHandlers(groups, offsets, clients, live),
            RelayHandlers(clients, groups, topics, store, live),
            BrokerHandlers(store, live, self.counters, self.flow_control, self._wall_ms, self._retain, self._figures),
            StatisticsHandlers(self.counters, topics, live, self._wall_ms),
            QueryHandlers(store, live),
            ReplyHandlers(clients, intake, self.own_messages, live, store_host, self._wall_ms),
        ):
            part.register(self.router)
        self.clockwork.add(SlowConsumerWatch(self.slow_consumers, live, self._stop_group).check)
        self.server.gate = self.flow_control
        self.server.on_closed += [self.pull.disconnected, self._client_handlers.disconnected]

    def _put_together_transactions(self, store_host: bytes) -> EndTransactionHandler:
        checks = TransactionChecks(
            self.store,
            self.own_messages,
            self.offsets,
            self.topics,
            self.clients,
            self.settings,
            store_host,
            self._wall_ms(),
        )
        ends = EndTransactionHandler(
            self.store,
            self.own_messages,
            checks,
            self.settings,
            store_host,
            self._wall_ms,
            wake=lambda: self.clockwork.wake(checks.check),
        )
        ends.register(self.router)
        self.detours.add([TRANSACTION_PREPARED], half_detour(self.settings), half_short_cut(self.settings))
        self.clockwork.add(checks.check)
        self._transaction_checks = checks
        return ends

    def _put_together_delays(self, store_host: bytes) -> None:
        """What comes to its topic, or comes back to its group, later."""
        settings = self.settings()
        delays_ms = delay_levels_ms(settings.delay_levels)
        if max(delays_ms) >= settings.reserved_hours * HOUR_MS:
            log.warning("The longest delay is not shorter than messages are kept (%d hours).", settings.reserved_hours)
        schedule = Schedule(
            self.store, self.own_messages, self.delays, delays_ms, wake=lambda: self.clockwork.wake(schedule.check)
        )
        retry = Retry(
            self.store,
            self.topics,
            self.groups,
            self.locks,
            schedule,
            self.own_messages,
            self.send,
            self.settings,
            store_host,
            monotonic_ms,
            on_sent_back=self.counters.count_send_back,
        )
        schedule.register(self.router)
        retry.register(self.router)
        self.detours.add_for_topics(RETRY_PREFIX, retry.lead)
        self._put_together_timers(store_host)  # before the levels: of a message that has both, the level counts
        self.detours.add([DELAY_LEVEL], schedule.lead, schedule.short_cut)
        self.clockwork.add(schedule.check)
        self._figures.append(schedule.figures)
        self._on_grown[SCHEDULE_TOPIC] = schedule.grew

    def _put_together_timers(self, store_host: bytes) -> None:
        settings = self.settings()
        sizes = TimerSizes(settings.timer_wheel_slots, settings.timer_precision_ms, settings.timer_log_file_bytes)
        index = TimerIndex(self._files, self.store.paths, sizes)
        delivery = TimerDelivery(self.store, self.own_messages, index, self.timer_metrics, self.settings, self.counters)
        timers = Timers(self.settings, self._wall_ms, delivery.crowd)
        self.detours.add(TIMER_PROPERTIES, timers.lead, timers.short_cut)
        if not settings.timers_enabled:
            return
        assert self._flusher is not None
        every_ms = lambda: self.settings().timer_flush_interval_ms  # noqa: E731 — a name for it, not a function
        keeper = TimerKeeper(delivery, index, self.timer_metrics, self._wall_ms, every_ms, self._flusher.flushed)
        keeper.register(self.router)
        RecallHandler(timers, self.topics, self.own_messages, self.send, self.settings, store_host, self._wall_ms).register(
            self.router
        )
        delivery.prepare(self._wall_ms())
        self.clockwork.add(delivery.check)
        self._figures.append(lambda: delivery.figures(self._wall_ms()))
        self._on_grown[TIMER_TOPIC] = lambda _: self.clockwork.wake(delivery.check)
        self._timer_delivery, self._timer_keeper = delivery, keeper

    def _safe_position(self) -> int:
        """Everything before it survives whatever the settings promise to survive, and a loss of power too."""
        return min(self.store.horizon.flushed, self.store.horizon.confirmed)

    def _topics_now(self) -> tuple[dict[str, TopicConfig], DataVersion]:
        return dict(self.topics.configs), self.topics.version

    # --- what happens between requests

    def _appended(self) -> None:
        assert self._flusher is not None
        self._flusher.appended()
        self._wake_pulls()

    def _confirmed(self) -> None:
        self.send.confirmed()
        self._wake_pulls()

    def _wake_pulls(self) -> None:
        for topic, queue_id in self.store.take_grown():
            self.pull.grew(topic, queue_id)
            if topic in self._on_grown:
                self._on_grown[topic](queue_id)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now_ms = monotonic_ms()
            self.send.check_time(self._wall_ms())
            self.pull.check_time(now_ms)
            self.counters.check_time(self._wall_ms())
            if now_ms - self._last_slow_tick_ms >= SLOW_TICK_MS:
                self._last_slow_tick_ms = now_ms
                self._client_handlers.check_time()
                self.locks.expire(now_ms)
                self._retain()

    def _stop_group(self, group: str, behind_bytes: int) -> None:
        config = self.groups.get(group)
        if config is not None and config.consume_enable:
            log.warning("Group '%s' reads %d bytes behind the end of the log: it may not consume any more.", group, behind_bytes)
            self.groups.stop(group)

    def _retain(self) -> None:
        self.store.config = self.settings().store_config()  # an administrator may have changed how long files are kept
        try:
            plan = self.store.retain(self._wall_ms(), datetime.now(UTC).astimezone().hour)
        except StoreError as error:
            log.error("Old files could not be removed: %s", error)
            return
        if plan.remove:
            log.info("%d of the oldest log files are gone: %s.", plan.remove, plan.reason)

"""The broker process: builds its parts, starts them in order and stops them in reverse order.

open and recover the store → load the tables from their files → listen → install the parts → register with the nameservers

The parts share one `BrokerContext`. Each sub-package installs itself with `install(context)`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

from skyrocket.broker.admin.install import install as install_admin
from skyrocket.broker.advertised_address import choose_advertised_host, resolve_advertised_host
from skyrocket.broker.auth.access_control import AccessControl
from skyrocket.broker.clients.heartbeats import HeartbeatHandlers
from skyrocket.broker.clients.install import install as install_clients
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.delay.install import DelayParts, TimerParts
from skyrocket.broker.delay.install import install as install_delay
from skyrocket.broker.delay.level_progress import DelayLevelProgress
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.dledger.group import PLAIN, DLedgerNode, NodeTls
from skyrocket.broker.dledger.group_settings import LedgerGroup, read_group
from skyrocket.broker.errors import ERROR_CODES, BrokerBrokenError
from skyrocket.broker.housekeeping import Housekeeping
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.load.flow_control import FlowControl
from skyrocket.broker.load.slow_consumers import SlowConsumers
from skyrocket.broker.log_retention import LogRetention
from skyrocket.broker.metrics.monitoring import BrokerMonitoring
from skyrocket.broker.metrics.stage_watch import StageWatch
from skyrocket.broker.nameserver_registration import NameserverRegistration
from skyrocket.broker.persistence import Persistence
from skyrocket.broker.pull.filters import Filters
from skyrocket.broker.pull.handler import PullHandler
from skyrocket.broker.pull.install import install as install_pull
from skyrocket.broker.replication.ha_status import HaStatus
from skyrocket.broker.replication.known_master import KnownMaster
from skyrocket.broker.replication.master_work import MasterWork
from skyrocket.broker.replication.metadata_sync import SYNC_MS, MetadataSync
from skyrocket.broker.replication.replication import Replication
from skyrocket.broker.replication.role_switch import RoleSwitch
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.broker.request_reply import install as install_request_reply
from skyrocket.broker.retry import install as install_retry
from skyrocket.broker.scheduler import Scheduler
from skyrocket.broker.scrubbing import IDLE_MS, Scrubbing
from skyrocket.broker.send.contributors import Contributors
from skyrocket.broker.send.deferred_sends import DeferredSends
from skyrocket.broker.send.install import install as install_send
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.parked_answers import ConfirmedAnswers
from skyrocket.broker.send.validation import SendValidator
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.steady_clock import BrokerClocks
from skyrocket.broker.tables.clients import ClientTable
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.queue_locks import QueueLockTable
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.broker.transactions.checker import TransactionChecker
from skyrocket.broker.transactions.install import install as install_transactions
from skyrocket.clock import monotonic_ms
from skyrocket.metrics.health import Phase
from skyrocket.net.connection import Connection
from skyrocket.net.descriptors import descriptor_limit, plan_descriptors
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import DataVersion, TopicConfig
from skyrocket.protocol.hosts import pack_host
from skyrocket.settings.live import FollowedSettings, LiveSettings
from skyrocket.store.changes_in_memory import ChangesInMemory
from skyrocket.store.config import FIXED_DESCRIPTORS, QUEUE_FILES_MAX, StoreConfig
from skyrocket.store.config_files import DELAY_OFFSETS, TIMER_METRICS, ConfigFiles
from skyrocket.store.descriptor_reserve import RESERVED_DESCRIPTORS
from skyrocket.store.errors import StoreError
from skyrocket.store.files import Disk, Files
from skyrocket.store.flusher import Flusher
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.message_store import MessageStore
from skyrocket.store.recovery.recovery_result import RecoveryResult

log = logging.getLogger(__name__)

CHECK_MS = 100  # between two checks of waiting pulls and parked answers
SLOW_CHECK_MS = 10_000  # between two checks of clients, locks and the disk
NODE_SCRUB_MS = 1_000  # before a node of a group scrubs its log: while the other nodes have what it lacks
GROUP_SYNC_MS = 2_000  # between two copies of the leader's tables: any follower may lead soon
VIP_PORT_BELOW = 2  # the broker also listens on port - 2, which Apache's clients use as the VIP channel


class Broker:
    """A broker in this process: `await start()`, use it over the network, then `await close()`."""

    _broken: Exception | None = None  # why the broker cannot go on
    _copies_watch: StageWatch | None = None  # told of appends and confirmations, while messages need copies

    def __init__(
        self,
        settings: BrokerSettings,
        limits: NetLimits | None = None,
        wall_ms: Callable[[], int] | None = None,
        files: Files | None = None,
        clocks: BrokerClocks | None = None,
        descriptors: int | None = None,
        *,
        only_reads: bool = False,
    ) -> None:
        """Tests replace the clock with `wall_ms`, the file system with `files`, or with `clocks` what jumps of the clock do.

        `descriptors` is how many files and connections the broker may have open: by default, as many as the process.
        With `only_reads` it changes nothing of the store on a disk that is full, and refuses messages (`full_disk_start`).
        """
        if clocks is None:
            clocks = BrokerClocks.real() if wall_ms is None else BrokerClocks.simulated(wall_ms)
        self._clocks = clocks
        self._wall_ms = wall_ms = clocks.wall_ms
        self._group = read_group(settings) if settings.dledger else None
        if self._group is not None:  # until it leads
            settings = replace(settings, role=BrokerRole.SLAVE, broker_id=self._group.slave_id)
        self.settings = LiveSettings(settings)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-store")
        self.files = files or Disk(reserved=RESERVED_DESCRIPTORS)
        self._changes = ChangesInMemory(self.files) if only_reads else None
        self._store_files: Files = self._changes or self.files
        limits = limits or settings.net_limits()
        self._descriptors = plan_descriptors(
            descriptors or descriptor_limit(), limits.connections_max, FIXED_DESCRIPTORS + QUEUE_FILES_MAX
        )
        self.store = self._new_store(settings, replace(settings.store_config(), open_files_max=self._queue_files))
        self._retention = LogRetention(self.store, self.settings, clocks.retention_ms)
        idle_ms = IDLE_MS if self._group is None else NODE_SCRUB_MS
        self._scrubbing = Scrubbing(self.store, self.files, self.settings, wall_ms, first_round_ms=idle_ms)
        self.topics = TopicTable(self.settings, wall_ms)
        self.groups = SubscriptionGroupTable(self.settings, wall_ms)
        self.offsets = ConsumerOffsets(wall_ms)
        self.clients: ClientTable[Connection] = ClientTable()
        self.locks = QueueLockTable()
        self._delay_progress = DelayLevelProgress(self._safe_position, wall_ms)
        self._timer_metrics = TimerMetrics(wall_ms)
        config_files = ConfigFiles(self.files, self.store.paths.config)
        self.persistence = Persistence(config_files, self.topics, self.groups, self.offsets)
        self.persistence.add_table(DELAY_OFFSETS, self._delay_progress)
        self.persistence.add_table(TIMER_METRICS, self._timer_metrics)
        self.scheduler = Scheduler(wall_ms)
        self.router = Router(ERROR_CODES)
        self.known_master = KnownMaster(settings.ha_master_address)
        self.roles = RoleSwitch(self.settings, self.router)
        limits = replace(limits, connections_max=self._descriptors.connections_max)
        self.server = Server(self.router, limits, settings.server_tls(), tls_only=settings.tls_only)
        self.access = AccessControl(self.settings, Path(self.store.paths.config), wall_ms)
        self._dialer = Dialer(tls=settings.client_tls())
        self._dialer.sign = self.access.sign
        self._flusher: Flusher | None = None
        self._transaction_checks: TransactionChecker | None = None
        self._timers: TimerParts | None = None
        self.replication = Replication(self.store, self.files, self.settings, monotonic_ms)
        self._registration = NameserverRegistration(
            self._dialer,
            self.settings,
            self._topics_now,
            self.topics.set_ordered,
            self.replication.announced_address,
            self.known_master.learn,
        )
        self.node: DLedgerNode | None = None  # of a DLedger group
        self._housekeeping = Housekeeping(monotonic_ms)
        self.stage_watch = StageWatch(self.store, is_group=self._group is not None)
        self.monitoring = BrokerMonitoring(settings, self.store, self.stage_watch.times) if settings.exports_metrics else None
        self._closing = AsyncExitStack()  # closes what was started, in reverse order
        self._is_broken = asyncio.Event()

    @property
    def _queue_files(self) -> int:
        """How many files of consume queues may be open."""
        return max(1, self._descriptors.files_max - FIXED_DESCRIPTORS)

    def _new_store(self, settings: BrokerSettings, config: StoreConfig) -> MessageStore:
        files, background = self._store_files, self._background
        if self._group is None:
            commit_log = settings.commit_log_path or None
            return MessageStore(settings.store_path, config, files=files, background=background, commit_log=commit_log)
        node_id, data = self._group.config.self_id, settings.dledger_path or None
        return LedgerStore(settings.store_path, config, node_id=node_id, files=files, background=background, data=data)

    # --- starting and stopping

    async def start(self) -> RecoveryResult:
        """Start serving clients, and return what the recovery of the store found."""
        if self._descriptors.warning is not None:
            log.warning(self._descriptors.warning)
        if (warning := self.settings().metrics_warning()) is not None:
            log.warning("%s", warning)
        closing = self._closing
        if self.monitoring is not None:  # first: it answers while the store recovers
            self.monitoring.listen()
            closing.push_async_callback(self.monitoring.close)
        closing.callback(self._background.shutdown)
        self.settings.replace(await choose_advertised_host(self.settings()))
        recovered = self.store.open()
        if self._changes is not None:
            self._changes.freeze()
            self.store.only_read("The disk was full when the broker started. It takes messages as soon as there is room.")
        self._clocks.advance_to(self.store.last_timestamp)
        closing.callback(self.store.close)
        closing.push_async_callback(self._dialer.close)
        closing.callback(self._close_timers)
        for sentence in (*recovered.sentences(), *self.persistence.load()):
            log.warning(sentence)
        self.access.load()
        closing.push_async_callback(self.access.audit.close)
        closing.push_async_callback(self.persistence.close)
        self._flusher = Flusher(self.store, monotonic_ms, self._on_confirmed, self._break)
        closing.push_async_callback(self._close_flusher, self._flusher)
        closing.push_async_callback(self.replication.close)
        closing.push_async_callback(self.server.close)
        closing.push_async_callback(self._answer_last_sends, self._flusher)
        self.replication.require_copies()
        await self._listen(self._flusher)
        if self._group is None:
            await self.replication.start(self._flusher, self._dialer, self._on_appended, self._on_confirmed)
            self.known_master.add_follower(self.replication)
        self.persistence.start(lambda: self.settings().offsets_interval_ms)
        self.topics.on_change.append(self._registration.on_topics_changed)
        self.roles.on_change.append(self._registration.on_topics_changed)
        closing.push_async_callback(self._retention.close)
        self._start_housekeeping()
        closing.push_async_callback(self._housekeeping.close)
        self._scrubbing.start()
        closing.push_async_callback(self._scrubbing.close)
        if self._changes is None:  # otherwise there is no room for due messages either
            self.roles.start()
        closing.push_async_callback(self.roles.stop)
        if self._group is not None:
            await self._start_node(self._group, self._flusher)
        closing.push_async_callback(self._registration.close)
        await self._registration.start()
        self._set_phase(Phase.SERVING)
        return recovered

    def _set_phase(self, phase: Phase) -> None:
        if self.monitoring is not None:
            self.monitoring.health.phase = phase

    async def _start_node(self, group: LedgerGroup, flusher: Flusher) -> None:
        assert isinstance(self.store, LedgerStore)
        settings = self.settings()
        tls = NodeTls(settings.server_tls(), settings.client_tls(is_on=True)) if settings.uses_dledger_tls else PLAIN
        self.node = DLedgerNode(
            group,
            self.store,
            flusher,
            self.roles,
            self.context.answers,
            self.topics,
            wall_ms=self._wall_ms,
            store_host=self.context.store_host,
            on_committed=self._on_visible,
            on_broken=self._break,
            register=self._registration.on_topics_changed,
            tls=tls,
        )
        self._closing.push_async_callback(self.node.close)
        self.context.runtime_figures.append(self.node.figures)
        self._scrubbing.on_damage = self.node.on_damage
        await self.node.start(settings.host)

    @property
    def can_only_read(self) -> bool:
        """Whether this broker may start on a full disk. A slave or a node of a group is of no use while it cannot store."""
        return self._group is None and not self.settings().role.is_slave

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Serve until `stopped` is set. Raise BrokerBrokenError when the broker cannot go on. Call `close` in either case."""
        waits = [asyncio.ensure_future(event.wait()) for event in (stopped, self._is_broken)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._broken is not None:
            raise BrokerBrokenError(f"The broker stops, because it cannot flush messages any more: {self._broken!r}.")

    async def _listen(self, flusher: Flusher) -> None:
        settings = self.settings()
        ip = await resolve_advertised_host(settings)
        port = await self.server.listen(settings.host, settings.port)
        self.settings.replace(replace(settings, port=port))
        self._install(self._new_context(flusher, pack_host(ip, port)))  # before any request is read: no await since `listen`
        if settings.port > VIP_PORT_BELOW:  # not for a port that the system chose: no client could guess the VIP port
            await self._listen_on_vip_port(settings.host, port)

    async def _listen_on_vip_port(self, host: str, port: int) -> None:
        vip_port = port - VIP_PORT_BELOW
        try:
            await self.server.listen(host, vip_port, is_vip=True)
        except NetError as error:
            why = f"It is the VIP port of listenPort {port}: Apache's clients use the port {VIP_PORT_BELOW} below it."
            raise NetError(f"{error} {why} Choose another listenPort, or free port {vip_port}.") from error

    async def close(self) -> None:
        """Unregister, answer the requests under way, and close the store so that the next start needs no recovery.

        Everything that was started is closed, even if closing another part fails. The last failure is raised at the end.
        """
        self._set_phase(Phase.STOPPING)
        await self._closing.aclose()

    async def _answer_last_sends(self, flusher: Flusher) -> None:
        """Flush what was appended before connections are closed: its producers wait for the answer."""
        self.server.stop_requests()
        with suppress(StoreError, TimeoutError):  # then they get none, and do not know whether their messages are stored
            async with asyncio.timeout(self.server.limits.drain_ms / 1000):
                await flusher.wait_flushed(self.store.log.end)

    async def _close_flusher(self, flusher: Flusher) -> None:
        """Flush the last op message of transactions too, and publish how far their checks are."""
        if self._transaction_checks is not None:
            self._transaction_checks.close(self._wall_ms())
        await flusher.close()
        if self._transaction_checks is not None:
            self._transaction_checks.publish()

    def _close_timers(self) -> None:
        if self._timers is not None:
            self._timers.delivery.close(self._clocks.machine_ms())

    def _break(self, error: Exception) -> None:
        self._broken = error
        self._is_broken.set()

    # --- the parts

    def _new_context(self, flusher: Flusher, store_host: bytes) -> BrokerContext:
        """Build what the parts share. Message ids contain `store_host`."""
        counters, contributors = Counters(self._wall_ms), Contributors()
        return BrokerContext(
            settings=self.settings,
            wall_ms=self._wall_ms,
            machine_ms=self._clocks.machine_ms,
            now_ms=monotonic_ms,
            store_host=store_host,
            files=self._store_files,
            store=self.store,
            flusher=flusher,
            on_appended=self._on_appended,
            remove_expired_files=self._retention.run_round,
            internal_writer=InternalWriter(
                self.store, self._wall_ms, self._on_appended, counters, is_slave=lambda: self.roles.is_slave
            ),
            contributors=contributors,
            send_validator=SendValidator(self.topics, self.settings, store_host, contributors),
            deferred_sends=DeferredSends(self.persistence.saver, self.router),
            answers=ConfirmedAnswers(
                self.store.horizon,
                monotonic_ms,
                slave_timeout_ms=lambda: self.settings().slave_timeout_ms,
                slow_ms=lambda: self.settings().slow_request_ms,
            ),
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            saver=self.persistence.saver,
            offsets_saved=self.persistence.progress_saved,
            clients=self.clients,
            locks=self.locks,
            delay_progress=self._delay_progress,
            timer_metrics=self._timer_metrics,
            known_master=self.known_master,
            ha_status=HaStatus(self.replication, lambda: self.store.log.end, self._wall_ms, monotonic_ms),
            settle_registrations=self._registration.settle,
            access=self.access,
            router=self.router,
            scheduler=self.scheduler,
            filters=Filters(self.settings),
            counters=counters,
            flow_control=FlowControl(self.settings),
            slow_consumers=SlowConsumers(),
            on_queue_growth={},
            runtime_figures=[self._scrubbing.figures, self.replication.figures],
        )

    def _install(self, context: BrokerContext) -> None:
        self.context = context
        self._transaction_checks = install_transactions(context)  # before the delays: both may redirect a message
        install_send(context)
        self.pull: PullHandler = install_pull(context)
        self._closing.callback(self.pull.close)
        delay = install_delay(context)
        self._timers = delay.timers
        install_retry(context, delay.schedule)
        install_request_reply(context)
        self._heartbeats: HeartbeatHandlers = install_clients(context)
        install_admin(context)
        self.access.install(context.router)
        self.replication.on_refused = self.access.record_refused_slave
        self._add_role_work(context, delay, self._transaction_checks)
        self._on_queue_growth = context.on_queue_growth
        self.server.flow_control = context.flow_control
        self.server.on_closed += [self.pull.drop_connection, self._heartbeats.drop_connection]
        self.stage_watch.install(context, self.server)
        if self.monitoring is not None:
            self.monitoring.install(context, self.server, lambda: self.pull.waiting, self._node_figures)
            self.monitoring.health.reasons += [self._why_broken, self._why_no_leader]

    def _add_role_work(self, context: BrokerContext, delay: DelayParts, checker: TransactionChecker) -> None:
        self.roles.add_master_work(
            MasterWork(self.scheduler, delay, checker, context.wall_ms, context.machine_ms, begins_as_slave=self.roles.is_slave)
        )
        # A follower's log is a part of its leader's by itself: a group sees to that.
        is_copying = (lambda: self.replication.is_copying) if self._group is None else (lambda: True)
        sync_ms = SYNC_MS if self._group is None else GROUP_SYNC_MS
        self.roles.add_slave_work(MetadataSync(context, self._dialer, delay, is_copying, sync_ms))

    def _node_figures(self) -> dict[str, str]:
        return {} if self.node is None else self.node.figures()

    def _why_broken(self) -> str | None:
        return None if self._broken is None else f"The broker cannot flush messages any more: {self._broken!r}."

    def _why_no_leader(self) -> str | None:
        has_leader = self.node is None or self.node.driver.node.leader
        return None if has_leader else "This node knows no leader of its DLedger group."

    def _safe_position(self) -> int:
        """Return the log position before which everything survives both a loss of power and what the settings promise."""
        return min(self.store.horizon.flushed, self.store.horizon.confirmed)

    def _topics_now(self) -> tuple[dict[str, TopicConfig], DataVersion]:
        return dict(self.topics.configs), self.topics.version

    # --- events between requests

    def _on_appended(self) -> None:
        assert self._flusher is not None
        self._flusher.on_append()
        self.replication.on_appended()
        if self.node is not None:
            self.node.on_appended()
        if self._copies_watch is not None:
            self._copies_watch.on_appended()
        self._wake_pulls()

    def _on_confirmed(self) -> None:
        if self.node is not None:
            self.node.on_flushed()
        self.replication.on_confirmed()
        self._on_visible()

    def _on_visible(self) -> None:
        """More is confirmed: answers may leave, and messages are visible."""
        self.context.answers.release()
        if self._copies_watch is not None:
            self._copies_watch.on_visible()
        self._wake_pulls()

    def _wake_pulls(self) -> None:
        grown, on_growth = self.store.take_grown(), self._on_queue_growth
        self.pull.on_queue_growth(grown)
        for topic, queue_id in grown:
            if topic in on_growth:
                on_growth[topic](queue_id)

    def _check_node(self, now_ms: int) -> None:
        if self.node is not None:
            self.node.check_time(now_ms)

    def _choose_copies_watch(self, _now_ms: int) -> None:
        """Watch how long copies take, while messages need some: the settings may change. This keeps other appends free of it."""
        self._copies_watch = self.stage_watch if self.stage_watch.needs_copies else None

    def _start_housekeeping(self) -> None:
        add, counters = self._housekeeping.add, self.context.counters
        self._choose_copies_watch(0)
        add("whether copies are watched", CHECK_MS, self._choose_copies_watch)
        add("time-outs of parked answers", CHECK_MS, self.context.answers.check_time)
        add("time-outs of waiting pulls", CHECK_MS, self.pull.check_time)
        add("connections of master and slaves", CHECK_MS, self.replication.check_time)
        add("checkpoint of the DLedger node", CHECK_MS, self._check_node)
        add("samples of counters", CHECK_MS, lambda _now_ms: counters.check_time(self._wall_ms()))
        add("silent clients", SLOW_CHECK_MS, lambda _now_ms: self._heartbeats.check_time())
        add("expired queue locks", SLOW_CHECK_MS, self.locks.expire)
        add("expired files", SLOW_CHECK_MS, lambda _now_ms: self._retention.start_round())
        followed = FollowedSettings(self.server, self.settings())
        add("changed settings", SLOW_CHECK_MS, lambda _now_ms: followed.follow(self.settings()))
        self._housekeeping.start()

"""The context of a running broker: what its parts share.

`Broker` builds one context when it knows its port. Each sub-package has a function `install(context)` that builds its handlers,
registers their request codes with the router, and adds its checks to the scheduler. So a constructor takes the context, and a
new part needs no change outside its package, but for one line in `Broker`.

Objects that only decide (tables, `LongPollingTable`, `CheckRound` …) take plain values and never see the context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from skyrocket.broker.auth.access_control import AccessControl
from skyrocket.broker.delay.level_progress import DelayLevelProgress
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.load.flow_control import FlowControl
from skyrocket.broker.load.slow_consumers import SlowConsumers
from skyrocket.broker.pull.filters import Filters
from skyrocket.broker.replication.ha_status import HaStatus
from skyrocket.broker.replication.known_master import KnownMaster
from skyrocket.broker.scheduler import Scheduler
from skyrocket.broker.send.contributors import Contributors
from skyrocket.broker.send.deferred_sends import DeferredSends
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.parked_answers import ConfirmedAnswers
from skyrocket.broker.send.validation import SendValidator
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.table_saver import TableSaver
from skyrocket.broker.tables.clients import ClientTable
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.queue_locks import QueueLockTable
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.settings.live import LiveSettings
from skyrocket.store.files import Files
from skyrocket.store.flusher import Flusher
from skyrocket.store.message_store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContext:
    settings: LiveSettings[BrokerSettings]  # call it for the current settings
    wall_ms: Callable[[], int]  # the time that messages are stamped and delayed by; never goes back
    machine_ms: Callable[[], int]  # the machine's clock, which may jump: for times that clients name
    now_ms: Callable[[], int]  # a clock that never jumps, for time-outs
    store_host: bytes  # the broker's address, as message ids contain it

    # The store, and what appends to it
    files: Files
    store: MessageStore
    flusher: Flusher
    on_appended: Callable[[], None]  # call it after each append: it wakes the flusher and waiting pulls
    remove_expired_files: Callable[[], Awaitable[None]]
    internal_writer: InternalWriter
    contributors: Contributors  # parts of the broker that redirect messages or add records to a send's append
    send_validator: SendValidator
    deferred_sends: DeferredSends  # sends whose topic is being created
    answers: ConfirmedAnswers  # sends an answer when its messages are confirmed

    # Tables
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsets
    saver: TableSaver  # saves topics and groups; wait for it before an answer that promises a change
    offsets_saved: Callable[[], Awaitable[None]]  # wait for it before an answer that promises new offsets
    clients: ClientTable[Connection]
    locks: QueueLockTable
    delay_progress: DelayLevelProgress
    timer_metrics: TimerMetrics

    # Replication and registration
    known_master: KnownMaster  # of a slave
    ha_status: HaStatus
    settle_registrations: Callable[[], Awaitable[None]]  # wait until no nameserver can get a registration from before now

    # Requests, timed work and load
    access: AccessControl
    router: Router
    scheduler: Scheduler
    filters: Filters
    counters: Counters
    flow_control: FlowControl
    slow_consumers: SlowConsumers

    # Registries that parts add to
    on_queue_growth: dict[str, Callable[[int], None]]  # by topic: called with a queue's id when the queue has new messages
    runtime_figures: list[Callable[[], dict[str, str]]]  # rows for the broker's runtime information (28)

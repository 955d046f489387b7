"""A `BrokerContext` for tests: every part that a test does not pass is built around the test's store, settings and clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from skyrocket.broker.auth.access_control import AccessControl
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.delay.level_progress import DelayLevelProgress
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.errors import ERROR_CODES
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
from skyrocket.net.router import Router
from skyrocket.protocol.hosts import pack_host
from skyrocket.settings.live import LiveSettings
from skyrocket.store.config_files import ConfigFiles
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import SimulatedDisk


def a_context(
    store: MessageStore,
    settings: Callable[[], BrokerSettings],
    wall_ms: Callable[[], int],
    now_ms: Callable[[], int] | None = None,
    machine_ms: Callable[[], int] | None = None,
    on_appended: Callable[[], None] = lambda: None,
    store_host: bytes | None = None,
    **parts: Any,
) -> BrokerContext:
    """`settings` may be any function that returns settings, unless a part under test changes them. There is no flusher."""
    store_host = store_host or pack_host("127.0.0.1", settings().port)
    counters = parts.setdefault("counters", Counters(wall_ms))
    contributors = parts.setdefault("contributors", Contributors())
    topics = parts.setdefault("topics", TopicTable(settings, wall_ms))
    groups = parts.setdefault("groups", SubscriptionGroupTable(settings, wall_ms))
    router = parts.setdefault("router", Router(ERROR_CODES))
    saver = parts.setdefault("saver", TableSaver(ConfigFiles(SimulatedDisk(), "store/config"), topics, groups))
    built = {
        "access": AccessControl(settings, Path("store/config"), wall_ms),
        "files": SimulatedDisk(),
        "flusher": None,
        "remove_expired_files": partial(asyncio.sleep, 0),
        "internal_writer": InternalWriter(store, wall_ms, on_appended, counters),
        "send_validator": SendValidator(topics, settings, store_host, contributors),
        "deferred_sends": DeferredSends(saver, router),
        "answers": ConfirmedAnswers(store.horizon, now_ms or wall_ms),
        "offsets": ConsumerOffsets(wall_ms),
        "offsets_saved": partial(asyncio.sleep, 0),
        "clients": ClientTable(),
        "locks": QueueLockTable(),
        "delay_progress": DelayLevelProgress(lambda: store.horizon.confirmed, wall_ms),
        "timer_metrics": TimerMetrics(wall_ms),
        "scheduler": Scheduler(wall_ms),
        "filters": Filters(settings),
        "known_master": KnownMaster(),
        "ha_status": HaStatus(None, lambda: store.log.end, wall_ms, now_ms or wall_ms),
        "settle_registrations": partial(asyncio.sleep, 0),
        "flow_control": FlowControl(settings),
        "slow_consumers": SlowConsumers(),
        "on_queue_growth": {},
        "runtime_figures": [],
    }
    return BrokerContext(
        settings=cast("LiveSettings[BrokerSettings]", settings),
        wall_ms=wall_ms,
        machine_ms=machine_ms or wall_ms,
        now_ms=now_ms or wall_ms,
        store_host=store_host,
        store=store,
        on_appended=on_appended,
        **cast("Any", built | parts),
    )

"""Install delayed delivery: delay levels, timers, and the recall of timed messages."""

from __future__ import annotations

import logging
from typing import NamedTuple

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.delay.levels import DelayLevels
from skyrocket.broker.delay.recall import RecallHandler
from skyrocket.broker.delay.timer_checkpointing import TimerCheckpointing
from skyrocket.broker.delay.timer_delivery import TimerDelivery
from skyrocket.broker.delay.timers import Timers
from skyrocket.protocol.system_names import SCHEDULE_TOPIC, TIMER_TOPIC
from skyrocket.store.config import delay_levels_ms
from skyrocket.store.timers.timer_index import TimerIndex, TimerSizes

log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
CLOCKS_DIFFER_MS = 100  # between two checks of timers while the broker's clock is ahead of the machine's


class TimerParts(NamedTuple):
    delivery: TimerDelivery
    keeper: TimerCheckpointing


class DelayParts(NamedTuple):
    schedule: DelayLevels
    timers: TimerParts | None  # None when the settings disable timers


def install(context: BrokerContext) -> DelayParts:
    """Install timers before delay levels: of a message that has both properties, the level counts."""
    settings = context.settings()
    delays_ms = delay_levels_ms(settings.delay_levels)
    if max(delays_ms) >= settings.reserved_hours * HOUR_MS:
        log.warning("The longest delay is not shorter than messages are kept (%d hours).", settings.reserved_hours)
    schedule = DelayLevels(
        context.store,
        context.internal_writer,
        context.delay_progress,
        delays_ms,
        wake=lambda: context.scheduler.wake(schedule.check),
    )
    schedule.register(context.router)
    timers = _install_timers(context)
    context.contributors.add(schedule)
    context.scheduler.add(schedule.check)
    context.runtime_figures.append(schedule.figures)
    context.on_queue_growth[SCHEDULE_TOPIC] = schedule.on_queue_grown
    return DelayParts(schedule, timers)


def _install_timers(context: BrokerContext) -> TimerParts | None:
    settings = context.settings()
    sizes = TimerSizes(settings.timer_wheel_slots, settings.timer_precision_ms, settings.timer_log_file_bytes)
    index = TimerIndex(context.files, context.store.paths, sizes)
    delivery = TimerDelivery(
        context.store, context.internal_writer, index, context.timer_metrics, context.settings, context.counters
    )
    timers = Timers(context.settings, context.machine_ms, delivery.count_slot)
    context.contributors.add(timers)
    if not settings.timers_enabled:
        return None
    keeper = TimerCheckpointing(
        delivery,
        index,
        context.timer_metrics,
        context.machine_ms,
        lambda: context.settings().timer_flush_interval_ms,
        context.flusher.wait_flushed,
    )
    keeper.register(context.router)
    RecallHandler(context, timers).register(context.router)
    if not settings.role.is_slave:
        delivery.prepare(context.machine_ms())

    def check(now_ms: int) -> int | None:
        """Call the timers by the machine's clock, and return the scheduler's time."""
        machine_ms = context.machine_ms()
        next_ms = delivery.check(machine_ms, ahead_ms=now_ms - machine_ms)
        if next_ms is None or now_ms == machine_ms:
            return next_ms
        return now_ms + min(next_ms - machine_ms, CLOCKS_DIFFER_MS)  # the scheduler's clock may be slower for a while

    context.scheduler.add(check)
    context.runtime_figures.append(lambda: delivery.figures(context.machine_ms()))
    context.on_queue_growth[TIMER_TOPIC] = lambda _: context.scheduler.wake(check)
    return TimerParts(delivery, keeper)

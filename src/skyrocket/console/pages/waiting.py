"""What waits in the brokers: delayed and timed messages, and transactions whose producer has not told how they ended."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from skyrocket.client import Received
from skyrocket.client.admin import BrokerInfo
from skyrocket.console.limits import MESSAGES_PER_PAGE
from skyrocket.console.visit import Answer, Page, Visit, attempt, attempt_each
from skyrocket.console.waiting import TimerState, WaitingLevel, read_levels, read_timers
from skyrocket.protocol.message.properties import PRODUCER_GROUP, REAL_TOPIC, TRANSACTION_CHECK_TIMES
from skyrocket.protocol.system_names import HALF_TOPIC, TRANSACTION_GROUP


class WaitingAtBroker(NamedTuple):
    levels: list[WaitingLevel]
    timers: TimerState | None  # None: the broker has no timer wheel


class WaitingHalf(NamedTuple):
    message: Received
    topic: str
    producer_group: str
    checks: str


class WaitingHalves(NamedTuple):
    """Half messages behind the point up to which all have ended: at most so many wait."""

    unended_max: int
    first: list[WaitingHalf]


async def show_waiting(visit: Visit) -> Answer:
    brokers, halves = await asyncio.gather(attempt(visit.admin.cluster.brokers()), attempt(_read_halves(visit)))
    masters = [one for one in brokers.value or [] if one.is_master]

    async def ask(broker: BrokerInfo) -> WaitingAtBroker:
        cluster = visit.admin.cluster
        runtime, settings = await asyncio.gather(cluster.runtime(broker.address), cluster.config(broker.address))
        return WaitingAtBroker(read_levels(runtime, settings), read_timers(runtime))

    rows = list(zip(masters, await attempt_each(masters, ask), strict=True))
    return Page("waiting.html", "Waiting", {"brokers": brokers, "rows": rows, "halves": halves})


async def _read_halves(visit: Visit) -> WaitingHalves:
    """Read the oldest half messages that the checks of the brokers have not passed yet. Some of them may have ended."""
    if HALF_TOPIC not in await visit.admin.topics.names(internal=True):
        return WaitingHalves(0, [])
    committed = {row.queue: row.offset or 0 for row in await visit.admin.offsets.get(TRANSACTION_GROUP, HALF_TOPIC)}
    begins, ends = await asyncio.gather(visit.admin.offsets.at(HALF_TOPIC, "first"), visit.admin.offsets.at(HALF_TOPIC, "last"))
    count, found = 0, list[WaitingHalf]()
    for queue, end in ends.items():
        begin = max(committed.get(queue, 0), begins[queue])
        count += max(0, end - begin)
        async for message in visit.admin.messages.read_queue(queue, begin, min(end, begin + MESSAGES_PER_PAGE)):
            found.append(_half(message))
    return WaitingHalves(count, sorted(found, key=lambda one: one.message.stored_ms)[:MESSAGES_PER_PAGE])


def _half(message: Received) -> WaitingHalf:
    properties = message.properties
    return WaitingHalf(
        message, properties.get(REAL_TOPIC, ""), properties.get(PRODUCER_GROUP, ""), properties.get(TRANSACTION_CHECK_TIMES, "0")
    )

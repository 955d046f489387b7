"""Connected producers and consumers, under RocketMQ 5's names, and the connections of all clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.metrics.traffic import as_label, is_system_group
from skyrocket.broker.tables.clients import GroupMember
from skyrocket.metrics.family import Measured, gauge, single
from skyrocket.metrics.page import SliceClock
from skyrocket.net.connection import Connection
from skyrocket.protocol.bodies import ConsumeType
from skyrocket.protocol.versions import version_text

PRODUCERS: Final = gauge("rocketmq_producer_connections", "Connected producers.", "language", "version", "protocol_type")
CONSUMERS: Final = gauge(
    "rocketmq_consumer_connections",
    "Connected consumers.",
    *("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)
OPEN: Final = gauge("skyrocket_connections", "Open connections of clients.")
PARKED: Final = gauge("skyrocket_parked_answers", "Answers that wait until their messages are confirmed.")
WAITING_PULLS: Final = gauge("skyrocket_waiting_pulls", "Pulls that wait for messages.")

_MODES: Final = {
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_POP: "pop",
    None: "unknown",
}


class ConnectionMetrics:
    def __init__(self, context: BrokerContext, connections: Callable[[], int], waiting_pulls: Callable[[], int]) -> None:
        self._clients = context.clients
        self._answers = context.answers
        self._connections = connections
        self._waiting_pulls = waiting_pulls
        self._producers: Counter[tuple[str, ...]] = Counter()
        self._consumers: Counter[tuple[str, ...]] = Counter()

    async def prepare(self) -> None:
        """Count the clients, a slice of them in each turn of the event loop."""
        slices = SliceClock()
        producers: Counter[tuple[str, ...]] = Counter()
        consumers: Counter[tuple[str, ...]] = Counter()
        for members in self._clients.all_producers.values():
            for member in members:
                producers[*_client_labels(member), "remoting"] += 1
                if slices.is_over():
                    await slices.pause()
        for group in self._clients.all_consumers():
            is_system = as_label(is_system_group(group.name))
            for member in list(group.members.values()):
                consumers[group.name, *_client_labels(member), _MODES[group.consume_type], "remoting", is_system] += 1
                if slices.is_over():
                    await slices.pause()
        self._producers, self._consumers = producers, consumers

    def collect(self) -> Iterable[Measured]:
        yield single(OPEN, self._connections())
        yield single(PARKED, self._answers.waiting)
        yield single(WAITING_PULLS, self._waiting_pulls())
        yield Measured(PRODUCERS, self._producers.items())
        yield Measured(CONSUMERS, self._consumers.items())


def _client_labels(member: GroupMember[Connection]) -> tuple[str, str]:
    """Return language and version of a client as Apache writes them: java, v5_5_0."""
    version = version_text(member.version).replace(".", "_").replace("-", "_")
    return member.language.name.lower(), f"v{version}".lower()

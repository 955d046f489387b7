"""Install the requests of connected clients: heartbeats, offsets, queue locks, and requests that a consumer has to answer."""

from __future__ import annotations

from skyrocket.broker.clients.broker_to_client import BrokerToClientHandlers
from skyrocket.broker.clients.heartbeats import HeartbeatHandlers
from skyrocket.broker.clients.offsets import OffsetHandlers
from skyrocket.broker.clients.queue_locks import QueueLockHandlers
from skyrocket.broker.context import BrokerContext


def install(context: BrokerContext) -> HeartbeatHandlers:
    """Register the requests. The caller reports closed connections to the handlers that are returned, and calls `check_time`."""
    heartbeats = HeartbeatHandlers(context)
    for handlers in (
        heartbeats,
        OffsetHandlers(context),
        QueueLockHandlers(context),
        BrokerToClientHandlers(context),
    ):
        handlers.register(context.router)
    return heartbeats

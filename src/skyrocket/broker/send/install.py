"""Install the send path: the fast path and the general path."""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.send.fast_path import SendFastPath
from skyrocket.broker.send.handler import SendHandler


def install(context: BrokerContext) -> None:
    """Register the requests that send messages. Install contributors that claim frames before this."""
    handler = SendHandler(
        context.store,
        context.send_validator,
        context.settings,
        context.store_host,
        context.wall_ms,
        context.on_appended,
        context.counters,
        context.answers,
    )
    fast_path = SendFastPath(
        context.store,
        context.topics,
        context.contributors,
        context.settings,
        context.store_host,
        context.wall_ms,
        context.on_appended,
        context.counters,
        context.answers,
    )
    handler.register(context.router)
    fast_path.register(context.router)

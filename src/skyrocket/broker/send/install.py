"""Install the send path: the fast path and the general path."""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.send.fast_path import OrdinarySends
from skyrocket.broker.send.handler import SendHandler
from skyrocket.broker.transactions.end_handler import EndTransactionHandler


def install(context: BrokerContext, ends: EndTransactionHandler) -> SendHandler:
    """Register the requests that send messages. `ends` stores the ends of transactions that the fast path finds among them."""
    handler = SendHandler(
        context.store,
        context.send_validation,
        context.settings,
        context.store_host,
        context.wall_ms,
        context.on_appended,
        context.counters,
    )
    fast_path = OrdinarySends(
        context.store,
        context.topics,
        context.redirects,
        context.settings,
        context.store_host,
        context.wall_ms,
        context.on_appended,
        context.counters,
        handler,
        ends,
    )
    handler.register(context.router)
    fast_path.register(context.router)
    return handler

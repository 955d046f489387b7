"""Install the send path: the fast path and the general path."""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.send.fast_path import SendFastPath
from skyrocket.broker.send.handler import SendHandler


def install(context: BrokerContext) -> None:
    """Register the requests that send messages. Install contributors that claim frames before this."""
    SendHandler(context).register(context.router)
    SendFastPath(context).register(context.router)

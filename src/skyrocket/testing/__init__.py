"""A nameserver and a broker inside the test process, for tests of programs that use RocketMQ.

    async with LocalBroker() as broker:                  # in this event loop
        ... Producer(broker.nameserver) ...
        assert [message.body for message in await broker.messages("orders")] == [b"paid"]

    with sync.LocalBroker() as broker: ...               # with an event loop in a background thread

    def test_it(skyrocket_broker): ...                   # a pytest fixture; it needs no import

Names are imported on first use, because pytest imports this package in every project that has skyrocketmq installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyrocket.testing.clock import Clock
    from skyrocket.testing.local_broker import LocalBroker
    from skyrocket.testing.threaded import ThreadedBroker

__all__ = ["Clock", "LocalBroker", "ThreadedBroker"]

_MODULES = {
    "Clock": "skyrocket.testing.clock",
    "LocalBroker": "skyrocket.testing.local_broker",
    "ThreadedBroker": "skyrocket.testing.threaded",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)

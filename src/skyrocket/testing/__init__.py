"""For the tests of those who use RocketMQ: a nameserver and a broker in this process, in one line.

    async with LocalBroker() as broker:                  # in this event loop
        ... Producer(broker.nameserver) ...
        assert [message.body for message in await broker.messages("orders")] == [b"paid"]

    with sync.LocalBroker() as broker: ...               # with a loop in a thread of its own

    def test_it(skyrocket_broker): ...                   # pytest: nothing to import, installing skyrocketmq is enough

What is here is loaded when it is first used: pytest looks into this package wherever it is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyrocket.testing.clock import Clock
    from skyrocket.testing.local_broker import LocalBroker
    from skyrocket.testing.threaded import ThreadedBroker

__all__ = ["Clock", "LocalBroker", "ThreadedBroker"]

_PLACES = {
    "Clock": "skyrocket.testing.clock",
    "LocalBroker": "skyrocket.testing.local_broker",
    "ThreadedBroker": "skyrocket.testing.threaded",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)

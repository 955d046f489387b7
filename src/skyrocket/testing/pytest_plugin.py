"""Fixtures for pytest, found by the package's entry point. The broker is imported only when a test uses a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from skyrocket.testing.threaded import SyncBroker, ThreadedBroker


@pytest.fixture
def skyrocket_broker() -> Iterator[ThreadedBroker]:
    """A nameserver and a broker for one asynchronous test: `await skyrocket_broker.messages("orders")`."""
    from skyrocket.testing.threaded import ThreadedBroker  # noqa: PLC0415

    with ThreadedBroker() as broker:
        yield broker


@pytest.fixture
def skyrocket_sync_broker() -> Iterator[SyncBroker]:
    """A nameserver and a broker for one synchronous test: `skyrocket_sync_broker.messages("orders")`."""
    from skyrocket.testing.threaded import SyncBroker  # noqa: PLC0415

    with SyncBroker() as broker:
        yield broker

"""Fixtures. pytest finds them by the package's entry point; nothing of the broker is loaded before a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from skyrocket.testing.threaded import SyncBroker, ThreadedBroker


@pytest.fixture
def skyrocket_broker() -> Iterator[ThreadedBroker]:
    """A nameserver and a broker of the test's own, for tests that await: `await skyrocket_broker.messages("orders")`."""
    from skyrocket.testing.threaded import ThreadedBroker  # noqa: PLC0415

    with ThreadedBroker() as broker:
        yield broker


@pytest.fixture
def skyrocket_sync_broker() -> Iterator[SyncBroker]:
    """The same for tests that do not."""
    from skyrocket.testing.threaded import SyncBroker  # noqa: PLC0415

    with SyncBroker() as broker:
        yield broker

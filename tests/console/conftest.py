"""A broker with some topics, groups and messages, its console, and visitors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from skyrocket.console.server import ConsoleServer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.browser import running_browser
from tests.support.pages.console import Visitor, running_console


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    with sync.LocalBroker({"enablePropertyFilter": "true"}) as running:
        yield running


@pytest.fixture(scope="module")
def console(broker: SyncBroker) -> Iterator[ConsoleServer]:
    with running_console(broker.nameserver) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture
def visitor(console: ConsoleServer) -> Iterator[Visitor]:
    one = Visitor(console.url)
    yield one
    one.close()

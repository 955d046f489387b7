"""Settings for all tests."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.async_tests import pytest_pyfunc_call  # noqa: F401 — pytest finds hooks by their names
from tests.support.plain_sources import leave_sources_as_they_are
from tests.support.schedule import pytest_configure, pytest_xdist_make_scheduler  # noqa: F401

leave_sources_as_they_are()  # before anything is imported from them

# Machines are small and noisy: no test fails because it took long. In CI the examples are the same every time.
settings.register_profile("skyrocket", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("skyrocket")

# Hundreds of tests start `skyrocket run`, and few of them look at its console, which is a process of its own.
os.environ.setdefault("SKYROCKET_CONSOLE", "false")


# `nohup`, and `&` in a script, let a process ignore SIGINT, and so would all servers and programs that tests stop with it.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Some 13,000 tests stay until the end: the collector of garbage does not look at them, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def no_log_line_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run in one process, and would throttle each other's log lines."""
    monkeypatch.setattr("skyrocket.net.outside_log.LINES_MAX", 1_000_000)

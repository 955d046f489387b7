"""The memory and modules of an idle `skyrocket run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.load import Wire, pull_request, resident_bytes, send_request
from tests.support.processes.skyrocket_process import Skyrocket

HEAVY = ("numpy", "pyarrow", "pyspark", "pandas")
RESIDENT_BYTES_MAX = 80_000_000


@pytest.fixture(scope="module")
def pid(tmp_path_factory: pytest.TempPathFactory):
    """Start a broker, send and pull one message so that it loads everything it needs, and return its process id."""
    with Skyrocket(tmp_path_factory.mktemp("footprint")) as running:
        with Wire(running.address) as wire:
            wire.ask(send_request("FootprintTopic", b"hello"))
            wire.ask(pull_request("FootprintTopic", 0))
        yield running.process.pid
        running.stop()


def test_the_broker_loads_no_heavy_library(pid: int):
    """These libraries are installed here for other packages. The broker would map their shared objects."""
    mapped = Path(f"/proc/{pid}/maps").read_text()
    assert "site-packages/msgspec" in mapped, "the test looks in the wrong place"
    assert [name for name in HEAVY if f"site-packages/{name}" in mapped] == []


def test_an_idle_broker_is_small(pid: int):
    assert resident_bytes(pid) < RESIDENT_BYTES_MAX


def loaded_by(module: str) -> set[str]:
    """Return our packages that importing a module loads."""
    script = f"import {module}, sys; print(*(name for name in sys.modules if name.startswith('skyrocket.')))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    return {name.split(".")[1] for name in output.split()}


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("skyrocket.cli.main", {"protocol", "net", "store", "broker", "client", "nameserver"}),
        ("skyrocket.cli.broker", {"client", "console", "testing"}),
        ("skyrocket.cli.namesrv", {"client", "testing"}),
        ("skyrocket.cli.console.command", {"broker", "store", "nameserver", "testing"}),
        ("skyrocket.cli.admin.topic", {"broker", "store", "nameserver", "testing"}),
        ("skyrocket.cli.messages.consume", {"broker", "store", "nameserver", "testing"}),
        ("skyrocket.cli.messages.dlq", {"broker", "store", "nameserver", "testing", "spark", "columnar"}),
        ("skyrocket.cli.files.store", {"broker", "nameserver", "testing", "spark"}),
    ],
)
def test_a_command_does_not_load_packages_it_does_not_need(module: str, not_needed: set[str]):
    assert loaded_by(module) & not_needed == set()

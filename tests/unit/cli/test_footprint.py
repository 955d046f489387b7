"""What `skyrocket run` takes when nobody uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.load import Wire, pull_request, resident_bytes, send_request
from tests.support.skyrocket_process import Skyrocket

HEAVY = ("numpy", "pyarrow", "pyspark", "pandas")
RESIDENT_BYTES_MAX = 80_000_000


@pytest.fixture(scope="module")
def pid(tmp_path_factory: pytest.TempPathFactory):
    """Of one that has taken and given a message, so that whatever it loads for that is there."""
    with Skyrocket(tmp_path_factory.mktemp("footprint")) as running:
        with Wire(running.address) as wire:
            wire.ask(send_request("FootprintTopic", b"hello"))
            wire.ask(pull_request("FootprintTopic", 0))
        yield running.process.pid
        running.stop()


def test_the_broker_loads_no_heavy_library(pid: int):
    """They are installed where the tests run, and are for other parts; their shared objects would be mapped."""
    mapped = Path(f"/proc/{pid}/maps").read_text()
    assert "site-packages/msgspec" in mapped, "otherwise this looks in a wrong place"
    assert [name for name in HEAVY if f"site-packages/{name}" in mapped] == []


def test_the_broker_is_small_at_rest(pid: int):
    assert resident_bytes(pid) < RESIDENT_BYTES_MAX


def loaded_by(module: str) -> set[str]:
    """The packages of ours that come with a module."""
    script = f"import {module}, sys; print(*(name for name in sys.modules if name.startswith('skyrocket.')))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    return {name.split(".")[1] for name in told.split()}


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("skyrocket.cli.main", {"protocol", "net", "store", "broker", "client", "nameserver"}),
        ("skyrocket.cli.broker", {"client", "testing"}),
        ("skyrocket.cli.namesrv", {"client", "testing"}),
        ("skyrocket.cli.topic", {"broker", "store", "nameserver", "testing"}),
        ("skyrocket.cli.consume", {"broker", "store", "nameserver", "testing"}),
    ],
)
def test_each_command_loads_what_it_needs(module: str, not_needed: set[str]):
    assert loaded_by(module) & not_needed == set()

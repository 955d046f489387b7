"""What `skyrocket run` takes when nobody uses it."""

from __future__ import annotations

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

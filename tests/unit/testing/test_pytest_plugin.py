"""The fixtures of the pytest plugin, as pytest finds them in a user's project."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]["skyrocket"]

TESTS = """
import asyncio
from skyrocket.client import Message, Producer
from skyrocket.client.sync import Producer as SyncProducer

def test_awaiting(skyrocket_broker):
    async def scene():
        async with Producer(skyrocket_broker.nameserver) as producer:
            await producer.send(Message("orders", b"one"))
        assert [message.body for message in await skyrocket_broker.messages("orders")] == [b"one"]
    asyncio.run(scene())

def test_not_awaiting(skyrocket_sync_broker):
    with SyncProducer(skyrocket_sync_broker.nameserver) as producer:
        producer.send(Message("orders", b"later", delay_level=1))
    assert skyrocket_sync_broker.messages("orders") == []
    skyrocket_sync_broker.advance(2)
    assert len(skyrocket_sync_broker.messages("orders")) == 1
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with no plugin but the one that our entry point names."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "-W", "error", *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_fixtures_work_in_a_project_that_installs_the_package(tmp_path: Path):
    (tmp_path / "test_theirs.py").write_text(TESTS)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_unused_fixtures_load_nothing(tmp_path: Path):
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n"
        "def test_nothing_is_loaded():\n"
        "    loaded = {name for name in sys.modules if name.startswith('skyrocket')}\n"
        f"    assert loaded == {{'skyrocket', 'skyrocket.testing', {PLUGIN!r}}}\n"
        "    assert 'msgspec' not in sys.modules\n"
    )
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_entry_point_leads_to_the_fixtures():
    module = importlib.import_module(PLUGIN)
    assert {"skyrocket_broker", "skyrocket_sync_broker"} <= set(vars(module))

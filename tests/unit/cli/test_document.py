"""Every example of docs/command-line.md runs: lines with a pipe in a shell, the others in this process, for speed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skyrocket.cli.main import COMMANDS, app
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "command-line.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    """Start a broker and run the first block on it, so that each other block can run alone."""
    with sync.LocalBroker() as running:
        prepare = ["skyrocket send orders --body first --key u-42 --count 8", "skyrocket group create audit"]
        for line in [*BLOCKS[0].splitlines(), *prepare]:
            run(line, running)
        yield running


def run(line: str, broker: SyncBroker) -> str:
    if "|" in line:
        return sh(line, broker)
    name, *arguments = shlex.split(line, comments=True)
    assert name == "skyrocket"
    done = CliRunner().invoke(app, arguments, env={"NAMESRV_ADDR": broker.nameserver})
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


def sh(line: str, broker: SyncBroker) -> str:
    folder = Path(sys.executable).parent
    function = f'skyrocket() {{ "{sys.executable}" -m skyrocket "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", function + line],
        env={**os.environ, "NAMESRV_ADDR": broker.nameserver, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_document_has_blocks_and_mentions_all_commands():
    assert len(BLOCKS) >= 6
    assert [name for name in COMMANDS if name not in DOCUMENT.read_text()] == []


@pytest.mark.parametrize("block", BLOCKS, ids=[re.sub(r"\W+", " ", block)[:30] for block in BLOCKS])
def test_a_block_runs(broker: SyncBroker, block: str):
    assert "".join(run(line, broker) for line in block.splitlines())

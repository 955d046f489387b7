"""A newcomer's path, typed on the command line: run, send, consume, look up by key, break something, ask the doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.skyrocket_process import Skyrocket
from tests.support.waiting import WAIT_S_MAX

Ask = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    with Skyrocket(tmp_path) as run:

        def skyrocket(*words: str) -> subprocess.CompletedProcess[str]:
            environment = {**os.environ, "NAMESRV_ADDR": run.nameserver}
            arguments = [sys.executable, "-m", "skyrocket", *words]
            return subprocess.run(
                arguments, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
            )

        yield skyrocket


def test_from_the_first_message_to_the_first_diagnosis(ask: Ask):
    walk_to_the_first_diagnosis(ask)


def walk_to_the_first_diagnosis(ask: Ask, look: Callable[[], None] = lambda: None) -> None:
    """Walk the path. `look` is called when there are messages and a group that has consumed them."""
    assert ask("topic", "create", "orders", "--queues", "4").returncode == 0
    assert ask("send", "orders", "--body", "hello", "--tag", "paid", "--key", "o-7", "--count", "6").returncode == 0
    consumed = ask("consume", "orders", "--group", "coupons", "--from", "first", "--count", "6", "--json")
    assert [json.loads(line)["body"] for line in consumed.stdout.splitlines()] == ["hello"] * 6
    found = ask("query", "key", "orders", "o-7", "--json")
    assert {message["tags"] for message in json.loads(found.stdout)} == {"paid"}

    look()
    sound = ask("doctor", "--group", "coupons", "--every", "0")
    assert (sound.returncode, sound.stderr) == (0, ""), sound.stdout

    assert ask("group", "create", "coupons", "--disabled").returncode == 0
    assert ask("topic", "create", "orders", "--perm", "r").returncode == 0
    ill = ask("doctor", "--group", "coupons", "--topic", "orders", "--every", "0")
    assert (ill.returncode, ill.stderr) == (1, "")
    assert "PROBLEM group-disabled: group coupons" in ill.stdout
    assert "Do: Allow it again with: skyrocket group create coupons --enabled" in ill.stdout
    assert "WARNING topic-unwritable: topic orders" in ill.stdout

    assert ask("group", "create", "coupons", "--enabled").returncode == 0
    assert ask("topic", "create", "orders", "--perm", "rw").returncode == 0
    cured = ask("doctor", "--group", "coupons", "--topic", "orders", "--every", "0", "--json")
    assert (cured.returncode, json.loads(cured.stdout)["sound"]) == (0, True)

"""A newcomer's path: run, send, consume, see it in the console, look it up by key, break something, ask the doctor.

Once with this checkout's `skyrocket run`, and once from nothing: a fresh clone, whose `make run` installs what it needs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.pages.console import Visitor, text_of
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import ROOT
from tests.support.tools import need
from tests.support.waiting import WAIT_S_MAX, wait_until

COMPILED = "src/skyrocket/compiled"
INSTALL_S_MAX = 1_800.0  # a busy machine downloads, compiles and installs
SMALL = "--set mappedFileSizeCommitLog=16777216 --set maxHashSlotNum=5000 --set maxIndexNum=20000"
OFFLINE = re.compile(r"Could not find a version|Temporary failure in name resolution|Failed to establish a new connection")

Ask = Callable[..., subprocess.CompletedProcess[str]]


class Started(NamedTuple):
    ask: Ask  # a command of skyrocket, in a second terminal
    console: str  # the address that the first terminal shows


@contextmanager
def first_terminal(home: Path, command: list[str], skyrocket: list[str], limit_s: float) -> Iterator[Started]:
    """Type a command that runs a broker. Read the address of the console off the screen, and press Ctrl-C in the end."""
    screen = home / "screen.txt"
    environment = {name: value for name, value in os.environ.items() if name not in ("SKYROCKET_CONSOLE", "MAKEFLAGS")}
    with screen.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=home, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    try:
        deadline = time.monotonic() + limit_s
        while (found := re.search(r"The console of (\S+) is at (http://\S+)", screen.read_text())) is None:
            if process.poll() is not None and OFFLINE.search(screen.read_text()) and os.environ.get("CI") != "true":
                pytest.skip("needs a package index, which this machine does not reach")
            assert process.poll() is None, screen.read_text()
            assert time.monotonic() < deadline, screen.read_text()
            time.sleep(0.05)

        def ask(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*skyrocket, *words],
                env={**environment, "NAMESRV_ADDR": found[1]},
                cwd=home,
                capture_output=True,
                text=True,
                timeout=WAIT_S_MAX,
                check=False,
            )

        yield Started(ask, found[2])
        os.killpg(process.pid, signal.SIGINT)
        process.wait(WAIT_S_MAX)
        assert "Traceback" not in screen.read_text(), screen.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_S_MAX)


def run_flags(data: Path) -> str:
    ports = f"--namesrv-port {free_port()} --port {free_port(-2, 1)} --console-port {free_port()}"
    return f"--data {data} {ports} {SMALL}"


def walk(started: Started) -> None:
    """Go from the first message to the first diagnosis, on the command line and in the console."""
    ask, visitor = started.ask, Visitor(started.console)
    assert ask("topic", "create", "orders", "--queues", "4").returncode == 0
    assert ask("send", "orders", "--body", "hello", "--tag", "paid", "--key", "o-7", "--count", "6").returncode == 0
    consumed = ask("consume", "orders", "--group", "coupons", "--from", "first", "--count", "6", "--json")
    assert [json.loads(line)["body"] for line in consumed.stdout.splitlines()] == ["hello"] * 6

    assert "1 of 1 answer" in visitor.read("/")
    assert "6 messages in 4 queues" in visitor.read("/topics/orders")
    wait_until(lambda: "Lag 0 messages" in visitor.read("/groups/coupons"), "the console shows that the group has consumed them")

    found = ask("query", "key", "orders", "o-7", "--json")
    assert {message["tags"] for message in json.loads(found.stdout)} == {"paid"}
    by_key = visitor.get("/messages?topic=orders&by=key&words=o-7")
    assert text_of(by_key).count("hello") == 6
    place = re.search(r'href="(/message\?[^"]+)"', by_key)
    assert place is not None
    message = visitor.read(place[1].replace("&amp;", "&"))
    assert "hello" in message
    assert "coupons Consumed, or passed" in message

    sound = ask("doctor", "--group", "coupons", "--every", "0")
    assert (sound.returncode, sound.stderr) == (0, ""), sound.stdout

    assert ask("group", "create", "coupons", "--disabled").returncode == 0
    assert ask("topic", "create", "orders", "--perm", "r").returncode == 0
    ill = ask("doctor", "--group", "coupons", "--topic", "orders", "--every", "0")
    assert (ill.returncode, ill.stderr) == (1, "")
    assert "PROBLEM group-disabled: group coupons" in ill.stdout
    assert "Do: Allow it again with: skyrocket group create coupons --enabled" in ill.stdout
    assert "WARNING topic-unwritable: topic orders" in ill.stdout
    doctor = "/doctor?group=coupons&topic=orders"
    wait_until(lambda: "Examined" in visitor.read(doctor), "the doctor of the console has examined the group")
    page = visitor.read(doctor)
    assert "Problem group coupons" in page
    assert "What to do Allow it again with: skyrocket group create coupons --enabled" in page
    assert "Warning topic orders" in page

    assert ask("group", "create", "coupons", "--enabled").returncode == 0
    assert ask("topic", "create", "orders", "--perm", "rw").returncode == 0
    cured = ask("doctor", "--group", "coupons", "--topic", "orders", "--every", "0", "--json")
    assert (cured.returncode, json.loads(cured.stdout)["sound"]) == (0, True)
    visitor.close()


def test_from_the_first_message_to_the_first_diagnosis(tmp_path: Path):
    skyrocket = [sys.executable, "-m", "skyrocket"]
    with first_terminal(tmp_path, [*skyrocket, "run", *run_flags(tmp_path / "data").split()], skyrocket, WAIT_S_MAX) as started:
        walk(started)


def test_the_same_from_a_fresh_clone(tmp_path: Path):
    """What stands in the repository is all that `make run` needs. It takes half a minute or more: packages.

    Compiled twins that were built from the same sources are taken over; the set-up of this test run has compiled them.
    """
    need("git", "make")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=WAIT_S_MAX)
    try:
        for built in (ROOT / COMPILED).glob("*.so"):
            shutil.copy2(built, clone / COMPILED)
        command = ["make", "run", f"PYTHON={sys.executable}", f"ARGS={run_flags(clone / 'skyrocket-data')}"]
        with first_terminal(clone, command, [str(clone / ".venv" / "bin" / "skyrocket")], INSTALL_S_MAX) as started:
            walk(started)
    finally:
        shutil.rmtree(clone, ignore_errors=True)

"""A newcomer's path from a fresh clone: make run, send, consume, see it in the console, break something, ask the doctor.

Everything that it needs is installed into the clone, as on a newcomer's machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.client.doctor.test_newcomer import Ask, walk_to_the_first_diagnosis
from tests.support.ports import free_port
from tests.support.skyrocket_process import registered
from tests.support.tools import need
from tests.support.waiting import WAIT_S_MAX, wait_until

ROOT = Path(__file__).resolve().parents[2]
INSTALL_S_MAX = 900  # packages come from an index, and the twins are compiled
BUILT = ".venv/.built"  # what `make run` makes first


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("git", "make")
    folder = tmp_path_factory.mktemp("newcomer") / "skyrocket"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    done = subprocess.run(["make", BUILT], cwd=folder, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False)
    if done.returncode and "CI" not in os.environ:
        pytest.skip(f"packages cannot be installed here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def console(clone: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Start everything with `make run`. Yields the address of the nameserver and that of the console."""
    names_port, port, console_port = free_port(), free_port(-2, 1), free_port()
    flags = f"--data {tmp_path} --namesrv-port {names_port} --port {port} --console --console-port {console_port}"
    with (tmp_path / "run.log").open("w") as log:
        command = ["make", "run", f"ARGS={flags}"]
        run = subprocess.Popen(command, cwd=clone, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    nameserver = f"127.0.0.1:{names_port}"
    try:
        wait_until(lambda: bool(registered(nameserver)), (tmp_path / "run.log").read_text)
        yield nameserver, f"http://127.0.0.1:{console_port}"
    finally:
        os.killpg(run.pid, signal.SIGINT)
        run.wait(WAIT_S_MAX)
        shutil.rmtree(clone / ".venv", ignore_errors=True)


def test_from_a_fresh_clone_to_the_first_diagnosis(clone: Path, console: tuple[str, str], tmp_path: Path):
    nameserver, pages = console

    def skyrocket(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NAMESRV_ADDR": nameserver}
        command = [str(clone / ".venv/bin/skyrocket"), *words]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
        )

    def see_in_console() -> None:
        for path, text in {"/topics": "orders", "/groups": "coupons", "/messages?by=key&topic=orders&words=o-7": "hello"}.items():
            with urlopen(pages + path, timeout=WAIT_S_MAX) as answer:
                assert text in answer.read().decode(), path

    ask: Ask = skyrocket
    walk_to_the_first_diagnosis(ask, see_in_console)

"""Shell completion: a real bash completes at a press of Tab; zsh and fish get the answers that their scripts ask for."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.cli.main import COMMANDS
from tests.support.startup import imported_by
from tests.support.tools import need
from tests.support.waiting import WAIT_S_MAX


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `skyrocket` is a command, as after an installation."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "skyrocket"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skyrocket "$@"\n')
    program.chmod(0o755)
    source = Path(__file__).resolve().parents[3] / "src"
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(source), "TERM": "dumb", "PS1": "$ "}


def run(environment: dict[str, str], *command: str, **more: str) -> str:
    done = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# --- bash


class Terminal:
    """An interactive bash on a pseudo-terminal."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        need("bash")
        self._master, slave = pty.openpty()
        command = ["bash", "--norc", "--noprofile", "-i"]
        self._shell = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder)
        os.close(slave)

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait(WAIT_S_MAX)
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, expected: str) -> str:
        deadline, shown = time.monotonic() + WAIT_S_MAX, ""
        while not re.search(expected, shown):
            assert time.monotonic() < deadline, f"no {expected!r} in {shown!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                shown += os.read(self._master, 65_536).decode(errors="replace")
        return shown


@pytest.fixture
def terminal(environment: dict[str, str], tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "store-directory").mkdir()
    opened = Terminal(environment, tmp_path)
    opened.type('eval "$(skyrocket completion bash)"; echo com""pletes\n')
    opened.read_until("completes\r\n")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("skyrocket top", "skyrocket topic "),
        ("skyrocket offset re", "skyrocket offset reset "),
        ("skyrocket topic create orders --qu", "skyrocket topic create orders --queues "),
        ("skyrocket completion z", "skyrocket completion zsh "),
        ("skyrocket store verify sto", "skyrocket store verify store-directory/"),  # bash itself completes files
    ],
)
def test_tab_completes_in_bash(terminal: Terminal, typed: str, completed: str):
    terminal.type(f"{typed}\t")
    assert completed in terminal.read_until(re.escape(completed))


def test_tab_twice_lists_the_commands_in_bash(terminal: Terminal):
    terminal.type("skyrocket co\t\t")
    terminal.read_until(r"completion +console +consume")


# --- the scripts' questions


def test_every_command_is_completed_and_none_is_imported(environment: dict[str, str]):
    asked = {"_SKYROCKET_COMPLETE": "complete_bash", "COMP_WORDS": "skyrocket ", "COMP_CWORD": "1"}
    assert run(environment, "skyrocket", **asked).split() == list(COMMANDS)
    setup = f"import os; os.environ.update({asked!r})"
    start = "from skyrocket.cli.main import app\ntry:\n    app(prog_name='skyrocket')\nexcept SystemExit:\n    pass"
    commands = {name for name in imported_by(f"{setup}\n{start}") if name.startswith("skyrocket.cli.")}
    assert commands == {"skyrocket.cli.main", "skyrocket.cli.lazy_commands"}


def test_fish_gets_one_completion_a_line_with_its_help(environment: dict[str, str]):
    asked = {"_SKYROCKET_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "skyrocket consu"}
    answer = run(environment, "skyrocket", _TYPER_COMPLETE_FISH_ACTION="get-args", **asked)
    assert answer == f"consume\t{COMMANDS['consume'].help}\n"
    run(environment, "skyrocket", _TYPER_COMPLETE_FISH_ACTION="is-args", **asked)


def test_zsh_gets_an_argument_list(environment: dict[str, str]):
    answer = run(environment, "skyrocket", _SKYROCKET_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="skyrocket off")
    assert answer == f"""_arguments '*: :(("offset":"{COMMANDS["offset"].help}"))'\n"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_accepts_its_script(environment: dict[str, str], shell: str):
    script = run(environment, "skyrocket", "completion", shell)
    assert f"_SKYROCKET_COMPLETE=complete_{shell}" in script
    assert run(environment, "skyrocket", _SKYROCKET_COMPLETE=f"{shell}_source").strip() == script.strip()
    assert run(environment, "skyrocket", _SKYROCKET_COMPLETE=f"source_{shell}").strip() == script.strip()
    if shutil.which(shell) is not None:
        run(environment, shell, "-n", "-c", script)


def test_another_shell_is_refused(environment: dict[str, str]):
    done = subprocess.run(["skyrocket", "completion", "csh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'csh'" in done.stderr

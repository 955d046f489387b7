"""Shell completion: real shells, bash, zsh and fish, complete commands, options, files, and the names that a cluster has."""

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
from typer.testing import CliRunner

from skyrocket.cli.main import COMMANDS, app
from skyrocket.testing.threaded import SyncBroker
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


# --- shells at a terminal

INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(skyrocket completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(skyrocket completion zsh)"'),
}


class Terminal:
    """An interactive shell on a pseudo-terminal."""

    def __init__(self, shell: str, environment: dict[str, str], folder: Path) -> None:
        need(shell)
        command, setup = INTERACTIVE[shell]
        self._master, slave = pty.openpty()
        self._shell = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder)
        os.close(slave)
        self.type(f'{setup}; echo com""pletes\n')
        self.read_until("completes\r\n")

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


@pytest.fixture(params=INTERACTIVE)
def terminal(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "store-directory").mkdir()
    opened = Terminal(request.param, {**environment, "HOME": str(tmp_path)}, tmp_path)
    yield opened
    opened.close()


def test_tab_completes_commands_options_values_and_files(terminal: Terminal):
    for typed, completed in (
        ("skyrocket top", "skyrocket topic "),
        ("skyrocket offset re", "skyrocket offset reset "),
        ("skyrocket topic create orders --qu", "skyrocket topic create orders --queues "),
        ("skyrocket completion z", "skyrocket completion zsh "),
        ("skyrocket store verify sto", "skyrocket store verify store-directory/"),  # the shell itself completes files
    ):
        terminal.type(f"{typed}\t")
        assert completed in terminal.read_until(re.escape(completed))
        terminal.type("\x15")  # Ctrl-U: a new line


def test_tab_lists_what_begins_alike(terminal: Terminal):
    terminal.type("skyrocket co\t\t")
    terminal.read_until(r"(?s)(?=.*completion)(?=.*config)(?=.*console)(?=.*consume)")


def test_tab_completes_the_names_of_topics_also_behind_an_address_with_a_colon(
    terminal: Terminal, skyrocket_sync_broker: SyncBroker
):
    skyrocket_sync_broker.create_topic("orders-of-today")
    typed = f"skyrocket topic show -n {skyrocket_sync_broker.nameserver} orders-o"
    terminal.type(f"{typed}\t")
    terminal.read_until("orders-of-today ")


# --- fish, which answers what Tab would show


def complete_in_fish(environment: dict[str, str], typed: str, folder: Path) -> list[str]:
    need("fish")
    script = f"skyrocket completion fish | source; cd {folder}; complete -C '{typed}'"
    shown = run({**environment, "HOME": str(folder)}, "fish", "--no-config", "-c", script)
    return [line.partition("\t")[0] for line in shown.splitlines()]


def test_fish_completes_commands_options_files_and_names(
    environment: dict[str, str], tmp_path: Path, skyrocket_sync_broker: SyncBroker
):
    (tmp_path / "store-directory").mkdir()
    skyrocket_sync_broker.create_topic("orders-of-today")
    assert complete_in_fish(environment, "skyrocket top", tmp_path) == ["topic"]
    assert complete_in_fish(environment, "skyrocket topic create orders --qu", tmp_path) == ["--queues"]
    assert complete_in_fish(environment, "skyrocket store verify sto", tmp_path) == ["store-directory/"]
    address = skyrocket_sync_broker.nameserver
    assert complete_in_fish(environment, f"skyrocket topic show -n {address} orders-o", tmp_path) == ["orders-of-today"]


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


def test_zsh_gets_one_completion_a_line_with_its_help(environment: dict[str, str]):
    answer = run(environment, "skyrocket", _SKYROCKET_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="skyrocket off")
    assert answer == f"offset:{COMMANDS['offset'].help}\n"


def ask(environment: dict[str, str], line: str, **more: str) -> list[str]:
    answer = run(environment, "skyrocket", _SKYROCKET_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line, **more)
    return [row.partition(":")[0] for row in answer.splitlines() if row]


def test_names_come_from_the_cluster_that_the_line_or_the_environment_names(
    environment: dict[str, str], skyrocket_sync_broker: SyncBroker, tmp_path: Path
):
    skyrocket_sync_broker.create_topic("orders")
    address = skyrocket_sync_broker.nameserver
    CliRunner().invoke(app, ["group", "create", "coupons", "-n", address])
    assert ask(environment, "skyrocket topic show ", NAMESRV_ADDR=address) == ["orders"]
    assert ask(environment, "skyrocket offset show cou", NAMESRV_ADDR=address) == ["coupons"]
    assert ask(environment, "skyrocket offset show coupons or", NAMESRV_ADDR=address) == ["orders"]
    assert ask(environment, "skyrocket consume orders --group c", NAMESRV_ADDR=address) == ["coupons"]
    file = tmp_path / "config.toml"
    file.write_text(f'[clusters.here]\nnamesrv = "{address}"\n')
    known = {"SKYROCKET_CONFIG": str(file)}
    assert ask(environment, "skyrocket topic show --cluster h", **known) == ["here"]
    assert ask(environment, "skyrocket topic show --cluster here o", **known) == ["orders"]


def test_a_cluster_that_does_not_answer_completes_nothing(environment: dict[str, str]):
    assert ask(environment, "skyrocket topic show ", NAMESRV_ADDR="127.0.0.1:1") == []
    assert ask(environment, "skyrocket topic show ", NAMESRV_ADDR="not an address") == []


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

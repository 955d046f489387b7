"""Rules for all commands: --json everywhere, --yes and --dry-run where something is destroyed, a name once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from skyrocket.cli.main import app
from tests.support.twin_commands import read_twins

ROOT = Path(__file__).resolve().parents[3]
SERVERS = {"run", "namesrv", "broker", "proxy"}  # they run until they are stopped
SCRIPTS = {"completion"}  # it prints a script
READS = {
    *("topic list", "topic show", "topic route", "topic peek", "group list", "group show", "group member", "offset show", "tail"),
    *("query key", "query id", "query offset", "query time", "query trace", "dlq list", "dlq show", "dlq export"),
    *("cluster show", "cluster info", "cluster producers", "config show", "config get", "doctor"),
    *("acl get", "acl list", "acl get-user", "acl list-users", "store verify", "store dump", "protocol codes", "protocol decode"),
    *("profile list", "profile show", "completion", "pipeline backlog", "pipeline audit", "pipeline verify"),
}
CREATES = {  # or changes something, and loses nothing
    *("topic create", "group create", "send", "consume", "bench", "acl create-user", "acl convert", "cluster transfer-leader"),
    *("pipeline archive", "pipeline replay", "pipeline table", "pipeline signup-demo", "console", *SERVERS),
}
DESTROYS = {
    *("topic delete", "group delete", "offset reset", "offset skip", "offset clone", "dlq resend", "config set", "store repair"),
    *("acl create", "acl update", "acl delete", "acl update-user", "acl delete-user", "pipeline drain", "pipeline deadletters"),
    *("cluster drain", "cluster undrain"),
}


def commands(group: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """All commands that run something, by their words."""
    found: dict[str, Any] = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        below = getattr(command, "list_commands", None)
        found |= commands(command, (*path, name)) if below is not None else {" ".join((*path, name)): command}
    return found


ALL = commands(get_command(app))


def options_of(name: str) -> set[str]:
    return {option for parameter in ALL[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", get_command(app).list_commands(None))  # type: ignore[attr-defined,arg-type]
def test_no_group_offers_a_completion_of_its_own(name: str):
    """`skyrocket completion` is the one way: a script of typer's would complete nothing, as `topic` is no program."""
    command = get_command(app).get_command(None, name)  # type: ignore[attr-defined,arg-type]
    assert not [one.name for one in command.params if "completion" in (one.name or "")]


def test_the_walk_finds_the_commands():
    assert len(ALL) > 50
    assert {"tail", "topic create", "pipeline archive", "store repair", "dlq resend", "profile show"} <= set(ALL)


@pytest.mark.parametrize("name", sorted(set(ALL) - SERVERS - SCRIPTS))
def test_every_command_has_json(name: str):
    assert "--json" in options_of(name)


def test_every_command_is_known_to_read_to_create_or_to_destroy():
    assert sorted([*READS, *CREATES, *DESTROYS]) == sorted(ALL), "list a new command once: does it read, create or destroy?"


@pytest.mark.parametrize("name", sorted(DESTROYS))
def test_what_destroys_asks_first(name: str):
    assert {"--yes", "--dry-run"} <= options_of(name)


@pytest.mark.parametrize("name", sorted(READS | CREATES))
def test_what_destroys_nothing_does_not_ask(name: str):
    assert "--yes" not in options_of(name)


@pytest.mark.parametrize("name", sorted(name for name in ALL if "delete" in name or "reset" in name))
def test_what_is_called_delete_or_reset_is_in_the_list_of_what_destroys(name: str):
    assert name in DESTROYS


@pytest.mark.parametrize("name", sorted(name for name in ALL if "namesrv" in {one.name for one in ALL[name].params}))
def test_what_takes_a_nameserver_takes_a_profile(name: str):
    if name not in SERVERS:
        assert "--cluster" in options_of(name)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_and_option_says_what_it_is(name: str):
    assert ALL[name].help
    silent = [one.name for one in ALL[name].params if one.param_type_name == "option" and not one.help]
    assert silent == []


def test_the_twins_of_mqadmins_commands_exist():
    groups = {name.split()[0] for name in ALL if " " in name}
    twins = {re.sub(r" --\w+$", "", command) for _, commands in read_twins() for command in commands}
    assert {command for command in twins if command not in ALL and command not in groups} == set()


def named_commands(text: str) -> set[str]:
    """The commands with their options that a text tells its reader to type."""
    return set(re.findall(r"skyrocket ((?:[a-z][a-z-]+ ?){1,2})(?=[ `\"'.,:;)\n]|$)", text))


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("src/skyrocket/doctor/**/*.py"))], ids=lambda path: path.name
)
def test_commands_that_documents_and_the_doctor_tell_exist(path: Path):
    groups = {name.split()[0] for name in ALL if " " in name}
    told = {" ".join(words.split()) for words in named_commands(re.sub(r'"\n\s*f?"', "", path.read_text()))}
    wrong = [text for text in told if text.split()[0] in groups and len(text.split()) > 1 and text not in ALL]
    assert wrong == []

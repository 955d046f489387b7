"""`skyrocket --help` is fast: it imports no command and no library for formatting."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from skyrocket.cli.main import COMMANDS, app
from tests.support.startup import costs_less_than, imported_by

HELP = """
from skyrocket.cli.main import app
try:
    app(["--help"], prog_name="skyrocket")
except SystemExit:
    pass
"""
COMMAND = HELP.replace('["--help"]', '["topic", "list", "-n", "127.0.0.1:1"]')
NOT_FOR_HELP = {
    "asyncio",
    "msgspec",
    "numpy",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "skyrocket.broker",
    "skyrocket.client",
    "ssl",
}


def test_help_imports_no_command_and_no_heavy_library():
    modules = imported_by(HELP)
    assert modules & NOT_FOR_HELP == set()
    commands = {name for name in modules if name.startswith("skyrocket.cli.")}
    assert commands == {"skyrocket.cli.main", "skyrocket.cli.lazy_commands"}


def test_a_command_imports_no_library_that_checks_arguments():
    modules = imported_by(COMMAND)
    assert "skyrocket.cli.admin.topic" in modules
    assert "pydantic" not in modules


def test_help_costs_less_than_three_times_the_import_of_asyncio(tmp_path: Path):
    """It takes about 0.07 s, and the import 0.05 s. The limit keeps the help text below 0.2 s."""
    assert costs_less_than(3, ["-m", "skyrocket", "--help"], baseline=["-c", "import asyncio, ssl"], cache=tmp_path)


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_overview_says_what_is_there_and_what_is_not(arguments: list[str]):
    text = CliRunner().invoke(app, arguments, prog_name="skyrocket").output
    missing = [line for line in text.splitlines() if line.startswith("Not ")]
    assert all("Spark" not in line for line in missing)
    if not arguments:
        assert 'spark.readStream.format("rocketmq")' in text
        assert missing == ["Not implemented yet: a proxy for gRPC clients. skyrocket --help lists all commands."]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_begins_with_its_line_in_the_list(name: str):
    """A table has the line, so that the list needs no import. A single command repeats it in its docstring."""
    _, text, *_ = CliRunner().invoke(app, [name, "--help"], prog_name="skyrocket").output.split("\n\n")
    assert " ".join(text.split()).startswith(COMMANDS[name].help)


def test_help_of_a_command_has_no_frames_drawn_by_rich():
    assert "╭" not in CliRunner().invoke(app, ["topic", "create", "--help"]).output

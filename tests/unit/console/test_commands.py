"""The commands that pages name exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import skyrocket.console
from skyrocket.cli.main import app
from tests.unit.cli.test_every_command import ALL

TEMPLATES = Path(skyrocket.console.__file__).parent / "templates"
NAMED = sorted(
    {
        re.sub(r'"\s*~[^"]*?~\s*"', "NAME", found)
        for path in TEMPLATES.glob("*.html")
        for found in re.findall(r'command\("(skyrocket .*?)"\s*(?:~\s*how|\))', path.read_text())
    }
)


def test_pages_name_commands():
    assert len(NAMED) >= 10, NAMED


@pytest.mark.parametrize("line", NAMED)
def test_a_command_that_a_page_names_exists(line: str):
    words = shlex.split(line)[1:]
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="skyrocket")
    assert done.exit_code == 0, done.output
    named = words[:1] if words[1] == "NAME" else words[:2]
    assert f"Usage: skyrocket {' '.join(named)}" in done.output
    command, arguments = ALL[" ".join(named)], words[len(named) :] if len(named) > 1 else []  # the doctor has options alone
    command.make_context(" ".join(named), arguments)  # raises for an argument that the command does not take

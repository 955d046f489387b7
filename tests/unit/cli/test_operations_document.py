"""The units for systemd in docs/operations.md: systemd reads them, and their commands exist with all their options."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tools import need
from tests.unit.cli.test_every_command import options_of

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
UNITS = dict(re.findall(r"```ini\n# /etc/systemd/system/(\S+)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))


def test_there_are_units_of_a_broker_and_of_the_console():
    assert set(UNITS) == {"skyrocket-broker.service", "skyrocket-console.service"}


@pytest.mark.parametrize("name", sorted(UNITS))
def test_a_unit_starts_a_command_that_exists_and_is_not_started_again_in_vain(name: str):
    (line,) = re.findall(r"^ExecStart=(.*)$", UNITS[name], re.MULTILINE)
    _, command, *arguments = shlex.split(line)
    given = {argument for argument in arguments if argument.startswith("-")}
    assert given <= options_of(command)
    assert "RestartPreventExitStatus=2" in UNITS[name]


@pytest.mark.parametrize("name", sorted(UNITS))
def test_systemd_reads_a_unit_without_a_complaint(name: str, tmp_path: Path):
    need("systemd-analyze")
    unit = tmp_path / name
    unit.write_text(
        re.sub(r"^User=.*", "User=root", UNITS[name], flags=re.MULTILINE).replace("/opt/skyrocket/bin/skyrocket", sys.executable)
    )
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, complaints) == (0, []), done.stderr

"""The README shows what a user sees: its program runs as it stands, and the greeting is the one of `make run`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from skyrocket.cli.broker import _ready
from skyrocket.testing.sync import LocalBroker

README = Path(__file__).resolve().parents[2] / "README.md"


def test_program_in_the_readme_sends_and_receives():
    [program] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    with LocalBroker() as broker:
        pointed_here = program.replace("127.0.0.1:9876", broker.nameserver)
        assert pointed_here != program
        done = subprocess.run([sys.executable, "-c", pointed_here], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "received b'hello'" in done.stdout


def test_readme_shows_what_run_prints():
    greeting = _ready("127.0.0.1:9876", "broker 127.0.0.1:10911", Path("skyrocket-data"), 0.16)
    assert f"$ make run\n{greeting}\n" in README.read_text()

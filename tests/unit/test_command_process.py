"""A process of commands that hangs, or ends: its test fails within its limit, and says why."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.pipelines.command_process import CommandProcess
from tests.support.waiting import wait_until

HANGS = """
import sys, time
print("the job is stuck", file=sys.stderr, flush=True)
print("{", end="", flush=True)
time.sleep(3600)
"""
HANGS_AT_ITS_END = """
import json, sys, time
print("the session does not stop", file=sys.stderr, flush=True)
sys.stdin.readline()
print(json.dumps({"returncode": 0, "stdout": "", "stderr": ""}), flush=True)
time.sleep(3600)
"""
ENDS = "import sys; sys.exit('no Java here')"


def start(home: Path, program: str) -> CommandProcess:
    """Start a program with a small limit, and wait until it has logged something."""
    process = CommandProcess(home, os.environ, (sys.executable, "-c", program), limit_s=2)
    wait_until(lambda: bool((home / "commands.log").read_text()), "the program runs")
    return process


def test_a_command_that_hangs_fails_with_what_it_logged(tmp_path: Path):
    with start(tmp_path, HANGS) as process:
        with pytest.raises(AssertionError, match=r"(?s)skyrocket pipeline table has not ended within 2 s.*the job is stuck"):
            process.run("pipeline", "table")
        assert process.returncode is not None


def test_a_process_that_does_not_end_fails_with_what_it_logged(tmp_path: Path):
    process = start(tmp_path, HANGS_AT_ITS_END)
    with pytest.raises(AssertionError, match=r"(?s)The process has not ended within 2 s.*the session does not stop"), process:
        assert process.run("pipeline").returncode == 0
    assert process.returncode is not None


def test_a_process_that_ends_says_why(tmp_path: Path):
    with start(tmp_path, ENDS) as process, pytest.raises(AssertionError, match=r"(?s)The process ended.*no Java here"):
        process.run("pipeline")

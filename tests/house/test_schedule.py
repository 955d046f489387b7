"""The files that `tests/support/schedule.py` and `tests/durations.txt` name exist, and tests belong to the part that is meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.bytecode import without_bytecode, write_bytecode
from tests.support.schedule import CUTS, part_of, read_durations

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = "tests/interop/test_java_client.py"
TIMERS = "tests/interop/test_timers.py"


def test_named_files_exist():
    named = {part.partition("[")[0] for part in read_durations()} | set(CUTS)
    assert [file for file in sorted(named) if not (ROOT / file).is_file()] == []


def test_durations_are_sorted_by_length():
    seconds = list(read_durations().values())
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.parametrize(
    ("nodeid", "part"),
    [
        ("tests/unit/net/test_server.py::test_it", "tests/unit/net/test_server.py"),
        ("tests/unit/net/test_server.py::test_it[json]", "tests/unit/net/test_server.py"),
        (f"{CLIENTS}::test_it[json]", f"{CLIENTS}[json]"),
        (f"{CLIENTS}::test_it[apache-old]", f"{CLIENTS}[apache-old]"),
        (f"{CLIENTS}::test_it[COMMIT-1-apache-old]", f"{CLIENTS}[apache-old]"),
        (f"{CLIENTS}::test_it[COMMIT-1-old]", f"{CLIENTS}[old]"),
        (f"{CLIENTS}::test_it", CLIENTS),
        (f"{TIMERS}::test_it[a-b]", f"{TIMERS}[test_it[a-b]]"),
    ],
)
def test_part_of_a_test(nodeid: str, part: str):
    assert part_of(nodeid) == part


def test_bytecode_is_written_of_all_tests_and_of_broken_ones_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    names = ["test_one.py", "test_two.py", "test_broken.py"]
    one, two, broken = (tmp_path / name for name in names)
    for file in (one, two):
        file.write_text("def test_it():\n    assert 1 + 1 == 2\n")
    broken.write_text("def")
    write_bytecode(tmp_path, missing_min=4)
    assert without_bytecode(tmp_path) == [broken, one, two], "so few are left to the workers"
    write_bytecode(tmp_path, missing_min=3)
    assert without_bytecode(tmp_path) == [broken]

"""A file of lines that is rotated: nothing is lost before the oldest file goes, and nobody else may read it."""

from __future__ import annotations

from pathlib import Path

from skyrocket.rotating_file import RotatingFile


def test_full_file_becomes_the_first_of_the_older_ones(tmp_path: Path):
    file = RotatingFile(tmp_path / "log", bytes_max=10, old_files=2)
    for number in range(7):
        file.append(b"line-%03d\n" % number)
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts == {"log.2": "line-002\nline-003\n", "log.1": "line-004\nline-005\n", "log": "line-006\n"}


def test_file_that_was_moved_away_begins_anew(tmp_path: Path):
    file = RotatingFile(tmp_path / "log")
    file.append(b"one\n")
    (tmp_path / "log").rename(tmp_path / "elsewhere")
    file.append(b"two\n")
    assert (tmp_path / "log").read_bytes() == b"two\n"


def test_folder_is_made_and_only_the_owner_may_read(tmp_path: Path):
    RotatingFile(tmp_path / "new" / "log").append(b"x\n")
    assert (tmp_path / "new" / "log").stat().st_mode & 0o777 == 0o600

"""Offsets of broadcasting consumers, in files. That Java reads and writes the same ones, interop/ says."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.client.consumer.offsets.offset_files import OffsetFile, OffsetFileError
from skyrocket.client.queues import Queue

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 7)


@pytest.fixture
def file(tmp_path: Path) -> OffsetFile:
    return OffsetFile(tmp_path, "10.0.0.1@DEFAULT", "wall")


def test_before_the_first_write_there_are_no_offsets(file: OffsetFile):
    assert file.read() == {}


def test_what_was_written_is_read_and_other_queues_keep_theirs(file: OffsetFile):
    file.write({A: 5, B: 1 << 40})
    file.write({A: 6})
    assert file.read() == {A: 6, B: 1 << 40}


def test_path_and_text_are_those_of_apaches_client(file: OffsetFile, tmp_path: Path):
    file.write({A: 5})
    assert file.path == tmp_path / "10.0.0.1@DEFAULT" / "wall" / "offsets.json"
    table = '{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5'
    assert "".join(file.path.read_text().split()) == f'{{"offsetTable":{{{table}}}}}'


@pytest.mark.parametrize("content", [None, b"", b'{"offsetTable":{{"brokerName":'])
def test_when_the_newest_is_gone_empty_or_cut_off_the_one_before_counts(file: OffsetFile, content: bytes | None):
    file.write({A: 5})
    file.write({A: 6})
    if content is None:
        file.path.unlink()
    else:
        file.path.write_bytes(content)
    assert file.read() == {A: 5}
    file.write({A: 7})
    assert file.read() == {A: 7}
    file.path.unlink()
    assert file.read() == {A: 5}, "what was damaged must not become the backup"


def test_when_both_are_damaged_it_says_so_instead_of_beginning_anew(file: OffsetFile):
    file.write({A: 5})
    file.path.write_bytes(b"{")
    with pytest.raises(OffsetFileError, match=r"offsets\.json is damaged, and there is no file before it"):
        file.read()
    file.backup_path.write_bytes(b"{")
    with pytest.raises(OffsetFileError, match=r"offsets\.json\.bak is damaged"):
        file.write({A: 6})


def test_nothing_new_is_not_written(file: OffsetFile):
    file.write({A: 5})
    file.write({A: 6})
    file.write({A: 6})
    file.path.unlink()
    assert file.read() == {A: 5}, "the backup is still the one before"


def test_a_crash_while_writing_leaves_the_old_offsets(file: OffsetFile, monkeypatch: pytest.MonkeyPatch):
    file.write({A: 5})

    def torn(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", torn)
        with pytest.raises(OffsetFileError, match="cannot be written"):
            file.write({A: 6})
    assert file.read() == {A: 5}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b"])
def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path, name: str):
    with pytest.raises(OffsetFileError, match="cannot be a folder's name"):
        OffsetFile(tmp_path, "client", name)


def test_a_file_too_large_to_be_one_is_refused(file: OffsetFile):
    file.path.parent.mkdir(parents=True)
    with file.path.open("wb") as out:
        out.truncate(5_000_000)
    with pytest.raises(OffsetFileError, match="larger than any file of offsets"):
        file.read()

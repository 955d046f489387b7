"""Offset files of broadcasting consumers. Tests in interop/ check that Java's client reads and writes the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.client.consumer.offsets.offset_file import OffsetFile, OffsetFileError
from skyrocket.client.queues import Queue

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 7)


@pytest.fixture
def file(tmp_path: Path) -> OffsetFile:
    return OffsetFile(tmp_path, "10.0.0.1@DEFAULT", "wall")


def test_without_a_file_there_are_no_offsets(file: OffsetFile):
    assert file.read() == {}


def test_write_changes_only_the_given_queues(file: OffsetFile):
    file.write({A: 5, B: 1 << 40})
    file.write({A: 6})
    assert file.read() == {A: 6, B: 1 << 40}


def test_path_and_content_equal_those_of_apaches_client(file: OffsetFile, tmp_path: Path):
    file.write({A: 5})
    assert file.path == tmp_path / "10.0.0.1@DEFAULT" / "wall" / "offsets.json"
    table = '{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5'
    assert "".join(file.path.read_text().split()) == f'{{"offsetTable":{{{table}}}}}'


@pytest.mark.parametrize("content", [None, b"", b'{"offsetTable":{{"brokerName":'])
def test_backup_is_read_if_the_newest_file_is_missing_empty_or_torn(file: OffsetFile, content: bytes | None):
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
    assert file.read() == {A: 5}, "a damaged file must not become the backup"


def test_two_damaged_files_raise_instead_of_losing_the_offsets(file: OffsetFile):
    file.write({A: 5})
    file.path.write_bytes(b"{")
    with pytest.raises(OffsetFileError, match=r"offsets\.json is damaged, and there is no backup"):
        file.read()
    file.backup_path.write_bytes(b"{")
    with pytest.raises(OffsetFileError, match=r"offsets\.json\.bak is damaged"):
        file.write({A: 6})


def test_unchanged_offsets_are_not_written(file: OffsetFile):
    file.write({A: 5})
    file.write({A: 6})
    file.write({A: 6})
    file.path.unlink()
    assert file.read() == {A: 5}, "the backup still has the offsets before"


def test_failed_write_keeps_the_old_offsets(file: OffsetFile, monkeypatch: pytest.MonkeyPatch):
    file.write({A: 5})

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fail)
        with pytest.raises(OffsetFileError, match="cannot be written"):
            file.write({A: 6})
    assert file.read() == {A: 5}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b"])
def test_names_that_escape_the_folder_are_refused(tmp_path: Path, name: str):
    with pytest.raises(OffsetFileError, match="is not a valid folder name"):
        OffsetFile(tmp_path, "client", name)


def test_file_above_the_size_limit_is_refused(file: OffsetFile):
    file.path.parent.mkdir(parents=True)
    with file.path.open("wb") as out:
        out.truncate(5_000_000)
    with pytest.raises(OffsetFileError, match="too large for an offset file"):
        file.read()

"""A small file is replaced all or nothing, and a power failure does not take the directories around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skyrocket.durable_file import read_file, replace_file
from skyrocket.store.files import Disk


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths that are synced from now on."""
    paths: list[Path] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return paths


def replace_on_disk(path: Path, content: bytes) -> None:
    """The store's own way of replacing a file."""
    Disk().replace(str(path), content)


@pytest.mark.parametrize("replace", [replace_file, replace_on_disk])
def test_every_new_directory_is_synced_into_its_parent(tmp_path: Path, synced: list[Path], replace):
    path = tmp_path / "a" / "b" / "c" / "settings"
    replace(path, b"content")
    assert path.read_bytes() == b"content"
    for directory in (tmp_path, tmp_path / "a", tmp_path / "a" / "b", path.parent):
        assert directory in synced, f"{directory} was not synced"
    synced.clear()
    replace(path, b"new")
    assert [one for one in synced if one.is_dir()] == [path.parent], "no directory is new"


def test_replacing_keeps_nothing_beside_the_file(tmp_path: Path):
    replace_file(tmp_path / "file", b"one")
    replace_file(tmp_path / "file", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert read_file(tmp_path / "file", 3) == b"two"
    assert read_file(tmp_path / "missing", 3) is None

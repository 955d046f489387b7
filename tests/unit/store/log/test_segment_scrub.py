"""Scrubbing finds what `skyrocket store verify` finds, and survives sectors that the disk does not return."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from skyrocket.store.files import Disk, File
from skyrocket.store.log import segment_scrub
from skyrocket.store.log.segment_scrub import SegmentScrub
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.verify import verify
from tests.support.stores.store_messages import SMALL, START_MS, numbered

CONFIG_BYTES = 64 * 1024


def a_store(path: Path, files: Disk | None = None) -> MessageStore:
    store = MessageStore(path, replace(SMALL, segment_bytes=CONFIG_BYTES, index_enabled=False), files=files)
    store.open()
    for first in range(0, 300, 10):
        store.append(numbered(10, first=first, body_bytes=700), START_MS + first)
    store.flush()
    store.checkpoint()
    return store


def scrub(store: MessageStore, piece_bytes: int = 5_000) -> list[str]:
    found: list[str] = []
    target = store.next_scrub_target(-1)
    while target is not None:
        segment = SegmentScrub(store._files, target)
        while not segment.is_done:
            found += map(str, segment.step(piece_bytes))
        segment.close()
        target = store.next_scrub_target(target.start)
    return found


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ mask]))


def closed_segments(store: MessageStore) -> list[Path]:
    return [Path(store.log.segments.path(start)) for start in store.log.segments.starts[:-1]]


def test_a_sound_log_has_no_finding(tmp_path: Path):
    store = a_store(tmp_path)
    assert len(closed_segments(store)) >= 3
    assert scrub(store) == []
    store.close()


@pytest.mark.parametrize("window_bytes", [1024 * 1024, 512])
def test_the_findings_are_those_of_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window_bytes: int):
    monkeypatch.setattr(segment_scrub, "WINDOW_BYTES", window_bytes)
    store = a_store(tmp_path)
    rng = Random(7)
    for path in closed_segments(store):
        for _ in range(6):
            flip(path, rng.randrange(CONFIG_BYTES - 1_000))
    verified = [str(finding) for finding in verify(tmp_path) if finding.path.startswith("commitlog/")]
    in_closed = [line for line in verified if line.split(" at ")[0] != verified_last(store) and "has no entry" not in line]
    found = scrub(store)
    assert len(found) >= 12
    assert found == in_closed
    store.close()


def verified_last(store: MessageStore) -> str:
    return f"commitlog/{store.log.segments.starts[-1]:020d}"


def test_without_checksums_the_crc_of_the_body_counts(tmp_path: Path):
    store = a_store(tmp_path)
    target = store.next_scrub_target(-1)
    assert target is not None
    flip(Path(target.path), 300)
    segment = SegmentScrub(store._files, target._replace(checksums=0))
    (finding,) = segment.step(CONFIG_BYTES)
    assert "CRC" in finding.problem
    segment.close()
    store.close()


class BadSector(Disk):
    """A disk that cannot return one page of one file."""

    bad_path = ""
    bad_at = 0

    def open(self, path: str, *, writable: bool) -> File:
        file = super().open(path, writable=writable)
        if path == self.bad_path and not writable:
            read = file.read

            def read_or_fail(at: int, size: int) -> bytes:
                if at < self.bad_at + 4096 and self.bad_at < at + size:
                    raise OSError(errno.EIO, "Input/output error")
                return read(at, size)

            file.read = read_or_fail  # type: ignore[method-assign]
        return file


def test_a_page_that_the_disk_does_not_return_is_a_finding_and_the_rest_is_scrubbed(tmp_path: Path):
    disk = BadSector()
    store = a_store(tmp_path, disk)
    first, second, *_ = closed_segments(store)
    disk.bad_path, disk.bad_at = str(first), 8192
    flip(second, 300)
    found = scrub(store)
    unreadable = [line for line in found if "Input/output error" in line]
    assert unreadable
    assert all(line.startswith(f"commitlog/{first.name} at ") for line in unreadable)
    assert any(line.startswith(f"commitlog/{second.name} at ") for line in found)
    assert len(found) == len(unreadable) + 1
    store.close()

"""What was cut from a replica's log is kept for a while, within a bound, and its end is said."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from skyrocket.store.files import Disk
from skyrocket.store.replica import diverged
from skyrocket.store.replica.diverged import KEPT_BYTES_MAX, KEPT_MS_MAX, DivergedFiles, KeptCut, choose_expired

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def test_nothing_goes_while_all_of_it_is_young_and_within_the_bound():
    kept = [KeptCut("1-0", 100, NOW_MS - KEPT_MS_MAX), KeptCut("2-0", KEPT_BYTES_MAX - 150, NOW_MS)]
    assert choose_expired(kept, 50, NOW_MS) == []
    assert choose_expired([], KEPT_BYTES_MAX * 3, NOW_MS) == [], "what is cut now is kept, however long it is"


def test_old_ones_go_and_then_the_oldest_until_the_rest_fits():
    old, middle, young = (KeptCut(str(days), KEPT_BYTES_MAX // 2, NOW_MS - days * DAY_MS) for days in (31, 2, 1))
    assert choose_expired([young, old], 0, NOW_MS) == [old]
    assert choose_expired([young, middle], 1, NOW_MS) == [middle]
    assert choose_expired([young, middle, old], KEPT_BYTES_MAX, NOW_MS) == [old, middle, young]


def test_files_and_directories_are_deleted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(diverged, "KEPT_BYTES_MAX", 100)
    (tmp_path / "1-00").mkdir()
    (tmp_path / "1-00" / "00").write_bytes(bytes(60))
    (tmp_path / "00-30").write_bytes(bytes(30))
    for number, path in enumerate((tmp_path / "1-00" / "00", tmp_path / "00-30")):
        os.utime(path, (NOW_MS // 1000 + number,) * 2)
    kept = DivergedFiles(Disk(), str(tmp_path), lambda: NOW_MS + 5_000)
    with caplog.at_level(logging.WARNING):
        kept.make_room(10)
        assert caplog.messages == []
        kept.make_room(20)
    assert [path.name for path in tmp_path.iterdir()] == ["00-30"]
    (sentence,) = caplog.messages
    assert "1-00 is deleted (60 bytes of a log that was cut)" in sentence

"""A store directory and what can be wrong with it: real stores, of ours and Apache's, killed, damaged, mixed and old."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from skyrocket.doctor.disk_levels import DiskLevels
from skyrocket.doctor.examination import examine_store
from skyrocket.doctor.finding import Diagnosis
from skyrocket.doctor.store import collect
from skyrocket.doctor.store.collect import StoreCollector
from skyrocket.doctor.store.facts import StoreFacts
from skyrocket.doctor.store.rules import diagnose_store
from skyrocket.report.parts import Severity
from skyrocket.store.errors import StoreError
from skyrocket.store.message_store import MessageStore
from tests.support.processes.load import Wire, send_request
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.stores.ledgers import golden_ledger
from tests.support.stores.sample_stores import (
    NOW_MS,
    SMALL,
    fingerprint,
    flip,
    golden_store,
    sample_record,
    sample_store,
    write_store,
)

LATER_MS = NOW_MS + 3_600_000
HOUR_MS = 3_600_000
ROOMY = DiskLevels(10.0)


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of the machine that runs the tests may be full."""
    monkeypatch.setattr(StoreCollector, "_read_disk", lambda *_: ROOMY)


def diagnose(directory: Path, now_ms: int = LATER_MS) -> dict[str, Diagnosis]:
    return {one.rule: one for one in diagnose_store(StoreCollector(directory).collect(now_ms))}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return sample_store(tmp_path / "store")


def test_a_sound_store_gets_no_diagnosis_and_stays_as_it_is(store: Path):
    before = fingerprint(store)
    assert diagnose(store) == {}
    assert fingerprint(store) == before


def test_apaches_store_is_read_as_well(tmp_path: Path):
    root = next(path.parent for path in golden_store(tmp_path).rglob("commitlog"))
    facts = StoreCollector(root).collect(LATER_MS)
    assert facts.verified is not None
    assert facts.verified.messages > 0
    assert {"store-damaged", "layout-unclear", "flush-failed"}.isdisjoint(diagnose(root))


def test_the_store_of_a_node_of_a_group_is_read_as_well(tmp_path: Path):
    golden_ledger(tmp_path, "n0")
    facts = StoreCollector(tmp_path / "n0").collect(LATER_MS)
    assert facts.verified is not None
    assert (facts.verified.messages > 0, facts.verified.count, facts.layout_error) == (True, 0, "")


def test_a_broker_that_was_killed(tmp_path: Path):
    write_store(tmp_path, map(sample_record, range(60)), close=False)  # it keeps its lock
    assert diagnose(tmp_path).keys() & {"unclean-shutdown", "checkpoint-behind"} == set(), "a broker runs over it"
    copied = tmp_path / "copy"
    shutil.copytree(tmp_path, copied, ignore=shutil.ignore_patterns("copy", "lock"))
    found = diagnose(copied)
    assert found["unclean-shutdown"].severity is Severity.WARNING
    assert found["checkpoint-behind"].evidence.endswith("B more.")
    assert "store-damaged" not in found


def test_damage_is_named_with_its_place(store: Path):
    segment = sorted((store / "commitlog").iterdir())[0]
    flip(segment, segment.read_bytes().index(bytes([10]) * 100) + 50)  # in a body, whose checksum every broker writes
    found = diagnose(store)["store-damaged"]
    assert found.severity is Severity.PROBLEM
    assert "commitlog/00000000000000000000" in found.evidence
    with_broker = MessageStore(store, SMALL)
    (store / "checkpoint").unlink()  # so that recovery reads everything
    (store / "abort").touch()
    with_broker.open()
    with_broker.close()
    assert "damage-set-aside" in diagnose(store)


def test_logs_of_two_layouts(store: Path):
    node = store / "dledger-n0" / "data"
    node.mkdir(parents=True)
    found = diagnose(store)
    assert found.keys() == {"layout-unclear"}
    assert "it was moved into a DLedger group" in found["layout-unclear"].evidence


def test_files_beyond_retention(store: Path):
    assert "kept-too-long" not in diagnose(store, NOW_MS + 90 * HOUR_MS), "a day of grace: files go once a day"
    found = diagnose(store, NOW_MS + 240 * HOUR_MS)["kept-too-long"]
    segments = len(list((store / "commitlog").iterdir()))
    assert found.evidence.startswith(f"{segments - 1} segment")
    assert "messages are kept for 72 h" in found.evidence
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "skyrocket.properties").write_text("fileReservedTime=480\n")
    assert "kept-too-long" not in diagnose(store, NOW_MS + 240 * HOUR_MS)


def test_a_failed_flush_and_diverged_messages(store: Path):
    (store / "sync_failed").touch()
    (store / "diverged").mkdir()
    (store / "diverged" / "00000000000000004096").touch()
    found = diagnose(store)
    assert found.keys() == {"flush-failed", "diverged"}
    assert found["flush-failed"].severity is Severity.PROBLEM


@pytest.mark.parametrize(
    ("used", "rules"),
    [(10.0, []), (82.0, ["disk-fills"]), (86.0, ["disk-deletes-early"]), (97.0, ["disk-full", "disk-deletes-early"])],
)
def test_levels_of_the_disk(used: float, rules: list[str]):
    facts = StoreFacts("store", DiskLevels(used))
    assert [one.rule for one in diagnose_store(facts) if one.rule.startswith("disk")] == rules


def test_a_large_log_is_not_read_whole(store: Path, monkeypatch: pytest.MonkeyPatch):
    flip(sorted((store / "commitlog").iterdir())[0], 3_000)
    monkeypatch.setattr(collect, "VERIFY_BYTES_MAX", 1)
    found = diagnose(store)
    assert found.keys() == {"not-verified"}
    assert "skyrocket store verify" in found["not-verified"].advice


def test_a_directory_without_a_store_cannot_be_looked_at(tmp_path: Path):
    with pytest.raises(StoreError, match="is not a store"):
        StoreCollector(tmp_path).collect(LATER_MS)


def test_a_running_broker_is_recognized_with_its_process(tmp_path: Path):
    with Skyrocket(tmp_path / "run") as run:
        with Wire(run.address) as wire:
            wire.ask(send_request("orders", b"hello"))
        directory = next(path.parent for path in run.data.rglob("commitlog"))
        now_ms = time.time_ns() // 1_000_000
        facts = StoreCollector(directory).collect(now_ms)
        assert run.process is not None
        assert (facts.is_locked, facts.process_id) == (True, run.process.pid)
        examined = examine_store(directory, now_ms=now_ms)
        assert [one.rule for one in examined.findings if one.about != "this machine"] == []
        run.kill()
        assert "unclean-shutdown" in diagnose(directory, now_ms)

"""`verify` has no findings for a sound store, and names file and position of every error in a damaged one."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from skyrocket.store.errors import StoreFormatError
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.offline.verify import VerifyCounts, verify
from skyrocket.store.offline.verify_index import Finding
from skyrocket.store.recovery.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from tests.support.stores.sample_stores import (
    NOW_MS,
    SMALL,
    fingerprint,
    flip,
    overwrite,
    sample_record,
    sample_store,
    write_store,
)
from tests.support.stores.store_messages import expire_oldest

COUNT = 150
INDEX_ENTRIES_AT = 40 + 4 * SMALL.index_slots


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("store"), COUNT)


@pytest.fixture
def store(untouched: Path, tmp_path: Path) -> Path:
    return shutil.copytree(untouched, tmp_path / "copy")


@pytest.fixture(scope="module")
def records(untouched: Path) -> list[FoundRecord]:
    with OfflineStore(untouched) as opened:
        return list(opened.records())


def queue_file(directory: Path, topic: str, queue: int, start: int = 0) -> Path:
    return directory / "consumequeue" / topic / str(queue) / f"{start:020d}"


def log_file(directory: Path, offset: int) -> tuple[Path, int]:
    start = offset - offset % SMALL.segment_bytes
    return directory / "commitlog" / f"{start:020d}", offset - start


def index_file(directory: Path) -> Path:
    return min((directory / "index").iterdir())


def only(directory: Path) -> Finding:
    findings = list(verify(directory))
    assert len(findings) == 1, "\n".join(map(str, findings))
    return findings[0]


# --- sound stores


def test_a_sound_store_has_no_finding(untouched: Path):
    verified = VerifyCounts()
    assert list(verify(untouched, verified=verified)) == []
    assert (verified.messages, verified.queues) == (COUNT, 6)
    assert verified.index_entries > 200


def test_a_store_whose_first_segment_expired_has_no_finding(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(COUNT)), close=False)
    expire_oldest(store)
    store.close()
    assert list(verify(tmp_path)) == []


def test_a_topic_that_was_deleted_and_created_again_is_no_finding(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(COUNT)), close=False)
    topic = sample_record(0).topic
    store.delete_topic(topic)()
    assert list(verify(tmp_path)) == []
    store.append([append_request_of(sample_record(0))], NOW_MS + 100_000)
    assert list(verify(tmp_path)) == []
    store.close()
    assert list(verify(tmp_path)) == []


def test_an_empty_store_has_no_finding(tmp_path: Path):
    write_store(tmp_path, [])
    assert list(verify(tmp_path)) == []


def test_directory_that_is_not_a_store_is_refused(tmp_path: Path):
    with pytest.raises(StoreFormatError, match="not a store"):
        list(verify(tmp_path))


def test_verifying_changes_nothing(store: Path, records: list[FoundRecord]):
    path, at = log_file(store, records[50].offset)
    overwrite(path, at, b"damage")
    before = fingerprint(store)
    assert list(verify(store))
    assert fingerprint(store) == before


# --- stores that are open


def test_an_open_store_has_no_finding(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(60)), close=False)
    assert list(verify(tmp_path)) == []
    store.append([append_request_of(sample_record(number)) for number in range(60, COUNT)], NOW_MS + 100_000)
    assert list(verify(tmp_path)) == []
    store.close()
    assert list(verify(tmp_path)) == []


def test_a_record_that_is_being_written_is_no_finding(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(20)), close=False)
    path, at = log_file(tmp_path, store.log.end)
    overwrite(path, at, append_request_of(sample_record(1)).record[:60])
    assert list(verify(tmp_path)) == []


def test_undispatched_messages_are_no_finding_but_older_ones_are(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(20)), close=False)
    store.flush()
    store.checkpoint()
    store.append([append_request_of(sample_record(number)) for number in range(20, 40)], NOW_MS + 100_000)
    assert list(verify(tmp_path)) == [], "queues, index and checksums are written late"
    assert store.write_late()
    with OfflineStore(tmp_path) as offline:
        found = list(offline.queue_records("topic-0", 0))
        old = sum(each.offset < store.begin_checkpoint().checkpoint.queue_physical_offset for each in found)
    path = queue_file(tmp_path, "topic-0", 0)
    newest = len(found) - 1
    overwrite(path, newest * 20, bytes(20))
    assert list(verify(tmp_path)) == []
    overwrite(path, 20, bytes(20 * newest))
    finding = only(tmp_path)
    assert finding.path.startswith("commitlog/")
    assert finding.offset == found[1].offset
    assert "topic-0/0 has no entry" in finding.problem
    assert old > 2


# --- the log


def test_damaged_body_is_found_with_its_queue_entry(store: Path, records: list[FoundRecord]):
    (store / "checkpoint").unlink()
    victim = next(each for each in records[40:] if len(each.record.body) > 10 and each.record.sys_flag == 0)
    path, at = log_file(store, victim.offset)
    body_at = (store / path).read_bytes().index(victim.record.body, at)
    flip(path, body_at + 3)
    in_log, in_queue = verify(store)
    assert (store / in_log.path, in_log.offset) == (path, at)
    assert f"{victim.size} bytes of the log at {victim.offset} cannot be read: The body" in in_log.problem
    assert in_queue.path.startswith(f"consumequeue/{victim.record.topic}/{victim.record.queue_id}/")
    assert in_queue.offset == victim.record.queue_offset * 20 % (SMALL.queue_entries_per_file * 20)
    assert "where no sound message lies" in in_queue.problem


def test_a_flipped_bit_outside_the_body_is_found_by_our_checksums(store: Path, records: list[FoundRecord]):
    victim = records[44]
    path, at = log_file(store, victim.offset)
    flip(path, at + 40)  # of the born timestamp
    problems = [finding.problem for finding in verify(store)]
    assert "the checksum over the whole record does not fit" in problems[0]


def test_a_damaged_end_of_a_closed_store_is_found(store: Path, records: list[FoundRecord]):
    last = records[-1]
    path, at = log_file(store, last.offset)
    flip(path, at + 5)
    findings = list(verify(store))
    assert {finding.path.partition("/")[0] for finding in findings} == {"checkpoint", "consumequeue", "index"}


def test_fillers_are_findings(store: Path, records: list[FoundRecord]):
    victim = records[60]
    path, at = log_file(store, victim.offset)
    overwrite(path, at, bytes(victim.size))
    (store / "checkpoint").unlink()
    (store / "abort").touch()
    recovering = MessageStore(store, SMALL)
    recovering.open()
    recovering.close()
    filler, *rest = verify(store)
    assert (store / filler.path, filler.offset) == (path, at)
    assert "a filler stands in their place" in filler.problem
    assert all("queue offset" in finding.problem for finding in rest), "\n".join(map(str, rest))


def test_a_missing_segment_is_found(store: Path):
    gap = SMALL.segment_bytes
    (store / "commitlog" / f"{gap:020d}").unlink()
    first = next(iter(verify(store)))
    assert (first.path, first.offset) == (f"commitlog/{gap:020d}", 0)
    assert "the file is missing" in first.problem


# --- queues


@pytest.mark.parametrize(
    ("field", "packed", "said"),
    [
        (0, struct.pack(">q", 10**9), "where no sound message lies"),
        (8, struct.pack(">i", 77), "says 77 bytes"),
        (12, struct.pack(">q", 12345), "has the tag code 12345"),
    ],
)
def test_wrong_queue_entry_is_found(store: Path, field: int, packed: bytes, said: str):
    overwrite(queue_file(store, "topic-1", 1), 5 * 20 + field, packed)
    finding = only(store)
    assert (finding.path, finding.offset) == (f"consumequeue/topic-1/1/{0:020d}", 100)
    assert "The entry for queue offset 5 of topic-1/1" in finding.problem
    assert said in finding.problem


def test_an_entry_for_another_message_is_found(store: Path):
    path = queue_file(store, "topic-1", 1)
    overwrite(path, 5 * 20, path.read_bytes()[120:140])
    assert "names the message with queue offset 6" in only(store).problem
    overwrite(path, 5 * 20, queue_file(store, "topic-2", 0).read_bytes()[:20])
    assert "names a message of topic-2/0" in only(store).problem


def test_missing_queue_entries_are_one_finding(store: Path):
    path = queue_file(store, "topic-0", 1)
    shutil.rmtree(path.parent)
    finding = only(store)
    assert finding.path == f"commitlog/{0:020d}"
    assert "The queue topic-0/1 has no entry for messages of the log: queue offsets 0 to " in finding.problem


def test_messages_of_a_deleted_topic_need_no_queue(store: Path):
    shutil.rmtree(store / "consumequeue" / "topic-0")
    (store / "config").mkdir()
    topics = store / "config" / "topics.json"
    topics.write_text('{"topicConfigTable":{"topic-1":{"topicName":"topic-1"},"topic-2":{"topicName":"topic-2"}}}')
    assert list(verify(store)) == []
    topics.write_text('{"topicConfigTable":{"topic-0":{"topicName":"topic-0"}}}')
    assert len(list(verify(store))) == 2


# --- index


@pytest.mark.parametrize(
    ("at", "packed", "said"),
    [
        (36, struct.pack(">i", 100_000), "the next entry is 100000"),
        (16, struct.pack(">q", 7), "first message is at 7"),
        (24, struct.pack(">q", 7), "last message is at 7"),
        (0, struct.pack(">q", NOW_MS * 2), "The header says that the first message was stored"),
        (32, struct.pack(">i", 3), "3 slots are in use"),
        (INDEX_ENTRIES_AT + 9 * 20, struct.pack(">i", 99), "no key of the message"),
        (INDEX_ENTRIES_AT + 9 * 20 + 4, struct.pack(">q", 5), "where none lies"),
        (INDEX_ENTRIES_AT + 9 * 20 + 12, struct.pack(">i", 500), "says 500 s after"),
        (INDEX_ENTRIES_AT + 9 * 20 + 16, struct.pack(">i", 8), "names entry 8 as the one before"),
    ],
)
def test_wrong_index_field_is_found(store: Path, at: int, packed: bytes, said: str):
    path = index_file(store)
    overwrite(path, at, packed)
    findings = list(verify(store))
    assert findings
    assert all(finding.path == f"index/{path.name}" for finding in findings)
    assert any(said in finding.problem for finding in findings), "\n".join(map(str, findings))


def test_wrong_slot_is_found(store: Path):
    path = index_file(store)
    slots = struct.unpack(f">{SMALL.index_slots}i", path.read_bytes()[40:INDEX_ENTRIES_AT])
    slot = next(number for number, entry in enumerate(slots) if entry)
    overwrite(path, 40 + 4 * slot, struct.pack(">i", slots[slot] - 1))
    finding = only(store)
    assert finding.offset == 40 + 4 * slot
    assert f"Slot {slot} points at entry {slots[slot] - 1}" in finding.problem


# --- checkpoint


def test_a_checkpoint_beyond_the_log_is_found(store: Path):
    path = store / "checkpoint"
    checkpoint = decode_checkpoint(path.read_bytes())
    path.write_bytes(encode_checkpoint(checkpoint._replace(safe_end=10**9)))
    assert "safe on disk up to 1000000000" in only(store).problem
    path.write_bytes(encode_checkpoint(Checkpoint(queue_physical_offset=10**9)))
    assert only(store)[:2] == ("checkpoint", 40)


def test_any_flipped_bit_of_a_queue_is_found(store: Path):
    path = queue_file(store, "topic-2", 1)
    for at in range(0, SMALL.queue_entries_per_file * 20, 3):
        flip(path, at, at % 8)
        assert list(verify(store)), f"byte {at}"
        flip(path, at, at % 8)


def test_any_flipped_bit_of_our_log_is_found(store: Path, records: list[FoundRecord]):
    for at in range(0, SMALL.segment_bytes, 211):
        path, _ = log_file(store, at)
        if at >= records[0].size and is_in_blank(at, records):
            continue
        flip(path, at, at % 8)
        assert list(verify(store)), f"byte {at}"
        flip(path, at, at % 8)


def is_in_blank(at: int, records: list[FoundRecord]) -> bool:
    """Whether a position lies in a blank, behind its first eight bytes: damage there has no effect."""
    last = [each for each in records if each.offset < SMALL.segment_bytes][-1]
    return at >= last.offset + last.size + 8

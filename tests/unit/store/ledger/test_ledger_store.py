"""The store of a node of a DLedger group: entries are appended, cut, flushed, confirmed and read; bad input is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.store.cold_reads import NotInMemoryError, ReadAttempt
from skyrocket.store.errors import DiskFullError, StoreFormatError, TooLargeError
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryError, pack_header
from skyrocket.store.ledger.ledger_store import DamagedEntryError, LedgerStore
from skyrocket.store.ledger.node_files import TermVote
from skyrocket.store.log.scan import DamagedRange
from skyrocket.store.log.segment_scrub import SegmentScrub
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.offline.verify import verify
from tests.support.stores.ledgers import (
    LEDGER_CONFIG,
    LedgerFiles,
    a_ledger,
    all_entries,
    append_committed,
    header_of,
    restore_entry,
)
from tests.support.stores.sample_stores import flip, overwrite
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import ROOT, START_MS, a_message, bodies, expire_oldest, random_messages


def some_messages(number: int, seed: int = 1) -> list:
    return random_messages(Random(seed), count(), number)


@pytest.fixture
def store(tmp_path: Path):
    opened = a_ledger(tmp_path / "store")
    yield opened
    opened.close()


def reopened(store: LedgerStore) -> LedgerStore:
    store.close()
    return a_ledger(store.paths.root)


# --- the leader's appends


def test_entries_get_consecutive_indexes_the_term_and_the_place_behind_the_header(store: LedgerStore):
    store.set_term(3)
    placed = store.append(some_messages(40), START_MS)
    store.set_term(5)
    placed += store.append(some_messages(40, seed=2), START_MS + 1)
    entries = all_entries(store)
    headers = [header_of(entry) for entry in entries]
    assert [header.index for header in headers] == list(range(80))
    assert [header.term for header in headers] == [3] * 40 + [5] * 40
    assert [header.pos + 48 for header in headers] == [each.physical_offset for each in placed]
    assert [header.size - 48 for header in headers] == [each.size for each in placed]
    assert all(entry[:HEADER_BYTES] == pack_header(header) for header, entry in zip(headers, entries, strict=True))
    for header, entry in zip(headers, entries, strict=True):
        assert decode_record(memoryview(entry)[HEADER_BYTES:]).physical_offset == header.pos + 48
    for before, after in pairwise(headers):
        assert after.pos in (before.end, before.pos - before.pos % 8192 + 8192), "an entry begins where the one before it ends"
    assert (store.begin_index, store.end_index, store.end_term) == (0, 79, 5)


def test_an_entry_leaves_eight_bytes_of_its_file_free(store: LedgerStore):
    append_committed(store, some_messages(200))
    for path in LedgerFiles(Path(store.paths.root)).data[:-1]:
        data = path.read_bytes()
        last = max(header_of(entry).end for entry in all_entries(store) if header_of(entry).pos < int(path.name) + 8192)
        at = last - int(path.name)
        assert data[at : at + 8] == b"\xff\xff\xff\xff" + (8192 - at).to_bytes(4)
        assert not any(data[at + 8 :])


def test_a_message_is_visible_when_the_group_has_confirmed_it(store: LedgerStore):
    store.append([a_message(body=b"one"), a_message(body=b"two"), a_message(body=b"three")], START_MS)
    store.flush()
    assert (bodies(store), store.durable_index, store.committed_index) == ([], 2, -1)
    store.commit(1)
    assert bodies(store) == [b"one", b"two"]
    store.commit(0)  # it never goes back
    store.commit(99)  # as far as the log goes
    assert (bodies(store), store.committed_index) == ([b"one", b"two", b"three"], 2)


def test_queue_offsets_go_on_behind_messages_that_are_not_confirmed(store: LedgerStore):
    store.append([a_message(body=b"one")], START_MS)
    again = reopened(store)
    assert bodies(again) == []
    (placed,) = again.append([a_message(body=b"two")], START_MS)
    assert placed.queue_offset == 1
    again.commit(1)
    assert bodies(again) == [b"one", b"two"]
    again.close()


def test_a_failed_append_leaves_nothing(tmp_path: Path):
    disk = SimulatedDisk()
    store = a_ledger(ROOT, files=disk)
    append_committed(store, some_messages(5))
    for nth in (1, 2):  # the index, the data
        disk.fail("write", nth, 28, short=True)
        with pytest.raises(DiskFullError):
            store.append(some_messages(3), START_MS)
        disk.heal()
        assert store.end_index == 4
    append_committed(store, some_messages(2))
    assert [header_of(entry).index for entry in all_entries(store)] == list(range(7))
    store.close()
    again = a_ledger(ROOT, files=disk)
    assert again.end_index == 6
    again.close()


def test_a_message_that_apaches_nodes_would_refuse_is_refused(tmp_path: Path):
    store = LedgerStore(tmp_path / "store", replace(LEDGER_CONFIG, segment_bytes=16 * 1024 * 1024), node_id="n0")
    store.open()
    with pytest.raises(TooLargeError, match="is over 4194304"):
        store.append([a_message(body=bytes(4 * 1024 * 1024))], START_MS)
    store.close()


def test_segments_that_are_not_confirmed_do_not_expire(store: LedgerStore):
    store.append(some_messages(60), START_MS)
    store.flush()
    assert expire_oldest(store) == 0
    store.commit(store.end_index)
    assert expire_oldest(store) == 8192


# --- a follower


def test_a_follower_that_gets_the_entries_has_the_same_files(store: LedgerStore, tmp_path: Path):
    append_committed(store, some_messages(150))
    follower = a_ledger(tmp_path / "follower")
    entries = all_entries(store)
    for first in range(0, 150, 7):
        follower.append_entries(entries[first : first + 7])
    follower.flush()
    follower.commit(149)
    for kind in ("data", "index"):
        pairs = zip(
            getattr(LedgerFiles(Path(store.paths.root)), kind), getattr(LedgerFiles(tmp_path / "follower"), kind), strict=True
        )
        assert all(mine.read_bytes() == theirs.read_bytes() for mine, theirs in pairs)
    assert [(key, queue.max_offset) for key, queue in sorted(follower.queues)] == [
        (key, queue.max_offset) for key, queue in sorted(store.queues)
    ]
    follower.close()
    assert list(verify(tmp_path / "follower")) == []


def test_entries_that_do_not_belong_here_are_refused_and_nothing_is_stored(store: LedgerStore, tmp_path: Path):
    store.set_term(4)
    append_committed(store, [a_message(body=bytes([number]) * 60) for number in range(6)])
    entries = all_entries(store)
    follower = a_ledger(tmp_path / "follower")
    follower.append_entries(entries[:3])
    third = header_of(entries[3])

    def altered(**changes: int) -> bytes:
        return pack_header(third._replace(**changes)) + entries[3][HEADER_BYTES:]

    torn = bytearray(entries[3])
    torn[HEADER_BYTES + 90] ^= 1
    refused = {
        "does not follow entry 2": [entries[4]],
        "less than the 4": [altered(term=3)],
        "mappedFileSizeCommitLog": [altered(pos=third.pos + 8)],
        "are no entry": [entries[3][:-1]],
        "no entry": [b""],
        "holds no message": [bytes(torn)],
    }
    for sentence, sent in refused.items():
        with pytest.raises(EntryError, match=sentence):
            follower.append_entries(sent)
        assert follower.end_index == 2
    follower.append_entries(entries[3:])
    assert all_entries(follower) == entries
    follower.close()


def test_an_empty_follower_begins_where_the_leaders_log_begins(store: LedgerStore, tmp_path: Path):
    append_committed(store, some_messages(120))
    expire_oldest(store)
    expire_oldest(store)
    first = store.begin_index
    assert first > 0
    follower = a_ledger(tmp_path / "follower")
    append_committed(follower, some_messages(30, seed=7))
    follower.append([a_message(body=b"never confirmed")], START_MS)
    entries = [entry for index in range(first, store.end_index + 1) if (entry := store.entry(index)) is not None]
    with pytest.raises(EntryError, match="cannot begin at 100"):
        follower.reset(100)
    assert follower.end_index == 30
    follower.reset(header_of(entries[0]).pos)
    assert (follower.begin_index, follower.end_index, list(follower.queues)) == (-1, -1, [])
    follower.append_entries(entries)
    follower.flush()
    follower.commit(store.end_index)
    assert (follower.begin_index, follower.end_index) == (first, store.end_index)
    again = reopened(follower)
    assert (again.begin_index, again.end_index, again.committed_index) == (first, store.end_index, store.end_index)
    again.close()
    assert list(verify(tmp_path / "follower")) == []


# --- truncation


def test_truncation_gives_back_queue_offsets_and_leaves_no_bytes(store: LedgerStore):
    append_committed(store, some_messages(30))
    kept = all_entries(store)
    store.append(some_messages(90, seed=3), START_MS)
    lost = all_entries(store)
    store.truncate(30)
    assert (store.end_index, store.log.end) == (29, header_of(kept[-1]).end)
    last = LedgerFiles(Path(store.paths.root)).data[-1]
    assert not any(last.read_bytes()[store.log.end - int(last.name) :])
    store.append(some_messages(90, seed=3), START_MS)
    assert all_entries(store) == lost, "the same messages get the same queue offsets again"
    store.commit(store.end_index)
    again = reopened(store)
    assert all_entries(again) == lost
    again.close()
    assert list(verify(store.paths.root)) == []


def test_what_is_cut_is_kept_aside(store: LedgerStore):
    append_committed(store, some_messages(3))
    store.append(some_messages(40, seed=3), START_MS)
    data = b"".join(path.read_bytes() for path in LedgerFiles(Path(store.paths.root)).data)
    first, end = header_of(store.entry(3) or b"").pos, store.end_position
    store.truncate(3)
    kept = sorted((Path(store.paths.root) / "diverged").iterdir())
    assert b"".join(path.read_bytes() for path in kept) == data[first:end]
    assert kept[0].name == f"{first:020d}-{8192 - first}"


def test_an_entry_matches_if_all_but_its_checksums_is_equal(store: LedgerStore):
    append_committed(store, some_messages(3))
    entry = all_entries(store)[1]
    assert store.matches(entry)
    assert store.matches(entry[:36] + b"12345678" + entry[44:])
    assert not store.matches(entry[:-1] + b"x")
    assert not store.matches(pack_header(header_of(entry)._replace(term=9)) + entry[HEADER_BYTES:])
    assert not store.matches(pack_header(header_of(entry)._replace(index=3)) + entry[HEADER_BYTES:])
    assert not store.matches(b"")


def test_padding_without_an_entry_behind_it_is_taken_back(tmp_path: Path):
    store = a_ledger(tmp_path / "store")
    append_committed(store, some_messages(60))
    entries = all_entries(store)
    store.close()
    files = LedgerFiles(tmp_path / "store")
    border = int(files.data[-1].name)
    files.data[-1].unlink()
    kept = [entry for entry in entries if header_of(entry).pos < border]
    files.checkpoint.write_bytes(b"committedIndex=%d\nendIndex=59\n" % (len(kept) - 1))
    crash(tmp_path / "store")
    again = a_ledger(tmp_path / "store")
    assert all_entries(again) == kept
    assert again.end_position == header_of(kept[-1]).end
    again.append_entries(entries[len(kept) :])
    assert all_entries(again) == entries
    again.close()


def test_what_is_confirmed_is_never_cut(store: LedgerStore):
    append_committed(store, some_messages(10))
    with pytest.raises(EntryError, match="Entry 9 is confirmed"):
        store.truncate(9)
    store.truncate(10)  # there is none
    assert store.end_index == 9


def test_a_flush_does_not_count_for_what_was_written_anew_meanwhile(store: LedgerStore):
    append_committed(store, some_messages(5))
    store.append(some_messages(10), START_MS)
    job = store.begin_flush()
    assert job is not None
    store.truncate(8)
    store.append(some_messages(10, seed=4), START_MS)
    job.run()
    store.finish_flush(job)
    assert store.durable_index == 7
    assert store.horizon.flushed == header_of(all_entries(store)[7]).end
    store.flush()
    assert store.durable_index == 17


# --- retention, term, checkpoint


def test_retention_keeps_the_index_in_line_with_the_data(store: LedgerStore):
    append_committed(store, some_messages(300))
    files = LedgerFiles(Path(store.paths.root))
    before = len(files.index)
    for _ in range(6):
        expire_oldest(store)
    first = header_of(bytes(files.data[0].read_bytes()[:HEADER_BYTES]))
    assert store.begin_index == first.index
    assert len(files.index) < before
    assert int(files.index[0].name) <= 32 * first.index < int(files.index[0].name) + 2048
    assert store.entry(first.index - 1) is None
    assert store.entry(first.index) is not None
    again = reopened(store)
    assert (again.begin_index, again.end_index) == (first.index, 299)
    again.close()
    assert list(verify(store.paths.root)) == []


def test_term_and_vote_are_durable_when_the_job_has_run():
    disk = SimulatedDisk()
    store = a_ledger(ROOT, files=disk)
    assert store.is_new
    for state in (TermVote(7, "n2", is_learner=True), TermVote(7, "n2")):
        job = store.begin_save_term(state)
        assert store.term_vote == state
        job()
        again = a_ledger(ROOT, files=disk.copy().crash(Random(1)))
        assert again.term_vote == state
        assert not again.is_new


def test_a_term_file_that_says_no_term_stops_the_node(store: LedgerStore):
    store.close()
    Path(store.paths.term_file).write_bytes(b"voteLeader=n1\ncurrTerm=\n")
    with pytest.raises(StoreFormatError, match="currTerm=N"):
        a_ledger(store.paths.root)


# --- damage


def closed_with(tmp_path: Path, messages: int) -> tuple[Path, list[bytes]]:
    store = a_ledger(tmp_path / "store")
    append_committed(store, [a_message(queue_id=number % 3, body=bytes([number]) * 60) for number in range(messages)])
    entries = all_entries(store)
    store.close()
    return tmp_path / "store", entries


def crash(root: Path) -> None:
    (root / "abort").write_bytes(b"skyrocket\n")
    (root / "checkpoint").unlink()


def test_a_damaged_record_is_set_aside_and_its_entry_keeps_its_place(tmp_path: Path):
    root, entries = closed_with(tmp_path, 60)
    damaged = header_of(entries[20])
    flip(LedgerFiles(root).data[damaged.pos // 8192], damaged.record_offset % 8192 + 90)
    crash(root)
    store = LedgerStore(root, LEDGER_CONFIG, node_id="n0", index_file_bytes=2048)
    done = store.open()
    assert any("DAMAGE" in sentence for sentence in done.sentences())
    assert store.damaged_indexes == [20]
    assert (store.end_index, store.committed_index) == (59, 59)
    with pytest.raises(DamagedEntryError, match="Entry 20 is damaged"):
        store.entry(20)
    assert len(store.entries(10)) <= 10, "a push stops before it"
    for index in (*range(20), *range(21, 60)):
        assert store.entry(index) == entries[index]
    with pytest.raises(EntryError, match="not the one"):
        restore_entry(store, entries[21])
    restore_entry(store, entries[20])
    assert store.damaged_indexes == []
    assert store.entry(20) == entries[20]
    record = decode_record(memoryview(entries[20])[HEADER_BYTES:])
    assert record in [decode_record(view) for view in store.reading.messages(record.topic, record.queue_id, 0, 32).records]
    store.close()
    again = a_ledger(root)
    assert again.damaged_indexes == []
    assert all_entries(again) == entries
    again.close()


@pytest.mark.parametrize("field_at", [0, 5, 10, 20, 30, 46])
def test_a_damaged_header_is_written_again_from_the_index(tmp_path: Path, field_at: int):
    root, entries = closed_with(tmp_path, 60)
    flip(LedgerFiles(root).data[0], header_of(entries[2]).pos + field_at, bit=3)
    crash(root)
    store = a_ledger(root)
    assert all_entries(store) == entries
    assert store.damaged_indexes == []
    store.close()
    assert list(verify(root)) == []


def test_an_index_that_is_lost_or_damaged_is_built_again(tmp_path: Path):
    root, entries = closed_with(tmp_path, 150)
    files = LedgerFiles(root)
    overwrite(files.index[0], 32 * 17, bytes(64))
    store = a_ledger(root)
    assert all_entries(store) == entries, "an entry without index entry is found by the headers"
    store.close()
    for path in files.index[1:]:
        path.unlink()
    store = a_ledger(root)
    assert all_entries(store) == entries
    store.close()
    for path in files.index:
        path.write_bytes(b"x" * 99)
    store = a_ledger(root)
    assert all_entries(store) == entries
    store.close()
    assert list(verify(root)) == []


def test_stale_entries_behind_the_end_do_not_come_back(tmp_path: Path):
    """Apache's node cuts its log without zeros: what lay behind the cut is whole, and has the right positions."""
    store = a_ledger(tmp_path / "store")
    same = [a_message(body=bytes([number]) * 50) for number in range(20)]
    append_committed(store, same[:5])
    store.append(same[5:], START_MS)
    stale = all_entries(store)
    store.set_term(9)
    store.truncate(5)
    store.append([a_message(body=b"z" * 50)], START_MS)  # as long as the entry that it replaces
    new = all_entries(store)
    store.flush()
    store.close()
    root = tmp_path / "store"
    overwrite(LedgerFiles(root).data[0], header_of(stale[6]).pos, b"".join(stale[6:]))
    crash(root)
    again = a_ledger(root)
    assert all_entries(again) == new
    again.close()


def test_scrubbing_finds_damage_in_a_closed_file(tmp_path: Path):
    store = a_ledger(tmp_path / "store")
    append_committed(store, some_messages(60))
    target = store.next_scrub_target(-1)
    assert target is not None
    scrub = SegmentScrub(store._files, target)
    assert scrub.step(10**6) == []
    assert scrub.is_done
    third = header_of(all_entries(store)[2])
    flip(LedgerFiles(tmp_path / "store").data[0], third.record_offset + 95)
    (finding,) = SegmentScrub(store._files, target).step(10**6)
    assert (finding.path, finding.offset) == ("dledger-n0/data/00000000000000000000", third.pos)
    store.close()


@pytest.mark.parametrize(
    ("number", "field_at", "reported"),
    [(2, 15, (2, 2)), (5, 8, (5, 5)), (0, 15, (0, 1)), (4, 23, (4, 5)), (4, 18, (4, 5))],
    ids=["index", "index, first byte", "first index", "term", "term, high byte"],
)
def test_scrubbing_finds_headers_that_do_not_fit_their_neighbours(
    tmp_path: Path, number: int, field_at: int, reported: tuple[int, int]
):
    """The checksum covers the record, not the header. A flipped index was never found, and never repaired."""
    store = a_ledger(tmp_path / "store")
    append_committed(store, some_messages(60))
    target = store.next_scrub_target(-1)
    assert target is not None
    headers = [header_of(entry) for entry in all_entries(store)]
    flip(LedgerFiles(tmp_path / "store").data[0], headers[number].pos + field_at)
    (finding,) = SegmentScrub(store._files, target).step(10**6)
    first, last = reported
    assert finding.damaged == DamagedRange(headers[first].pos, headers[last].end - headers[first].pos)
    assert finding.problem.endswith("have a header whose index or term does not fit its neighbours.")
    store.close()


# --- reads


def test_cold_entries_are_read_without_waiting(tmp_path: Path):
    root, entries = closed_with(tmp_path, 60)
    disk = SimulatedDisk()
    for path in root.rglob("*"):
        if path.is_file():
            disk.write_file(f"{ROOT}/{path.relative_to(root)}", path.read_bytes())
    store = a_ledger(ROOT, files=disk)
    disk.forget_pages()
    attempt, tries = ReadAttempt(), 0
    while True:
        try:
            found = store.reads.read_now(lambda: store.entries(3, 5), attempt)
            break
        except NotInMemoryError as missing:
            missing.fetch()
            tries += 1
    assert tries
    assert [bytes(each) for each in found] == entries[3:8]
    store.close()


def test_a_read_of_many_entries_is_bounded(store: LedgerStore):
    append_committed(store, some_messages(100))
    entries = all_entries(store)
    assert len(store.entries(0, 3)) == 3
    assert [bytes(each) for each in store.entries(0, bytes_max=1)] == entries[:1], "at least one"
    size = sum(map(len, entries[:4]))
    assert [bytes(each) for each in store.entries(0, bytes_max=size)] == entries[:4]
    assert store.entries(100) == []
    assert store.entries(-1) == []


def test_what_was_written_recently_is_read_as_it_lies_together(store: LedgerStore):
    append_committed(store, some_messages(100))
    entries = all_entries(store)
    segment_bytes = store.config.segment_bytes
    found = 0
    for first in range(100):
        run = store.recent_run(first, 3, 2**20)
        last = min(first + 2, 99)
        starts = [store.log.header_of(index) for index in (first, last)]
        if starts[0].pos // segment_bytes != starts[1].pos // segment_bytes:
            assert run is None, "padding lies between them"
            continue
        found += 1
        assert run is not None
        assert (run[0], bytes(run[1])) == (last - first + 1, b"".join(entries[first : last + 1]))
    assert found > 50
    assert store.recent_run(0, 3, 100) is None, "they are too many bytes"
    assert store.recent_run(100, 3, 2**20) is None
    assert store.recent_run(-1, 3, 2**20) is None


# --- layouts


def test_a_directory_of_the_other_layout_gives_one_clear_sentence(tmp_path: Path):
    root, _ = closed_with(tmp_path, 3)
    with pytest.raises(StoreFormatError, match=r"node n0 of a DLedger group\. Start it with enableDLegerCommitLog=true"):
        MessageStore(root, LEDGER_CONFIG).open()
    with pytest.raises(StoreFormatError, match="store of node n0, not of node n1"):
        LedgerStore(root, LEDGER_CONFIG, node_id="n1").open()
    plain = MessageStore(tmp_path / "plain", LEDGER_CONFIG)
    plain.open()
    plain.append([a_message()], START_MS)
    plain.close()
    with pytest.raises(StoreFormatError, match="messages from before the DLedger group"):
        LedgerStore(tmp_path / "plain", LEDGER_CONFIG, node_id="n0").open()
    with pytest.raises(StoreFormatError, match="cannot have the id"):
        LedgerStore(tmp_path / "new", LEDGER_CONFIG, node_id="../n0").open()
    (root / "dledger-n1" / "data").mkdir(parents=True)
    with pytest.raises(StoreFormatError, match=r"several nodes \(n0, n1\)"):
        OfflineStore(root)
    with OfflineStore(root, commit_log=root / "dledger-n0" / "data") as store:
        assert len(list(store.records())) == 3


def test_files_of_another_size_are_refused(tmp_path: Path):
    root, _ = closed_with(tmp_path, 3)
    with pytest.raises(StoreFormatError, match="8192 bytes; the configuration says 16384"):
        LedgerStore(root, replace(LEDGER_CONFIG, segment_bytes=16384), node_id="n0").open()


def test_rolled_back_and_half_messages_take_entries_and_no_queue_offsets(store: LedgerStore):
    append_committed(store, [a_message(body=b"half", sys_flag=4), a_message(body=b"plain")])
    assert store.end_index == 1
    assert bodies(store) == [b"plain"]
    records: list[Record] = [decode_record(memoryview(entry)[HEADER_BYTES:]) for entry in all_entries(store)]
    assert [record.queue_offset for record in records] == [0, 0]

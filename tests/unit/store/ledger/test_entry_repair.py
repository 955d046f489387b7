"""A node's store finds damaged entries, takes those of another node only where they belong, and is whole again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skyrocket.store.cold_reads import NotInMemoryError, ReadAttempt
from skyrocket.store.errors import StoreFormatError, UnreadableError
from skyrocket.store.files import DiskFile
from skyrocket.store.ledger.entry import EntryError
from skyrocket.store.ledger.ledger_store import DamagedEntryError, LedgerStore
from tests.support.stores.ledgers import LEDGER_CONFIG, LedgerFiles, a_ledger, all_entries, append_committed, header_of
from tests.support.stores.store_messages import a_message, read_queue

COUNT = 120  # in four files
QUEUES = 3


def closed_with(root: Path, messages: int = COUNT) -> list[bytes]:
    store = a_ledger(root)
    append_committed(store, [a_message(queue_id=number % QUEUES, body=bytes([number]) * 60) for number in range(messages)])
    entries = all_entries(store)
    store.close()
    return entries


def crash(root: Path) -> None:
    (root / "abort").write_bytes(b"skyrocket\n")
    (root / "checkpoint").unlink()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def damage(root: Path, entry: bytes, size: int = 20) -> None:
    header = header_of(entry)
    overwrite(LedgerFiles(root).data[header.pos // 8192], header.record_offset % 8192 + 30, b"x" * size)


def restore_all(store: LedgerStore, entries: list[bytes], at_once: int = 7) -> None:
    """As a repairer does: in order, several at once."""
    while store.repair.damaged:
        first, last = store.repair.damaged.ranges[0]
        job = store.repair.begin_restore(entries[first : min(last + 1, first + at_once)])
        job.run()
        store.repair.finish_restore(job)


def bytes_of(root: Path) -> list[bytes]:
    files = LedgerFiles(root)
    return [path.read_bytes() for path in files.data + files.index]


def bodies(store: LedgerStore) -> list[list[bytes]]:
    return [[record.body for record in read_queue(store, queue_id=queue_id)] for queue_id in range(QUEUES)]


@pytest.mark.parametrize("crashed", [False, True])
def test_a_lost_file_in_the_middle_is_created_again_and_its_entries_come_from_another_node(tmp_path: Path, crashed: bool):
    entries = closed_with(tmp_path)
    whole = bytes_of(tmp_path)
    expected = [[bytes([number]) * 60 for number in range(queue_id, COUNT, QUEUES)] for queue_id in range(QUEUES)]
    LedgerFiles(tmp_path).data[1].unlink()
    if crashed:
        crash(tmp_path)
    store = a_ledger(tmp_path)
    lost = [header_of(entry).index for entry in entries if 8192 <= header_of(entry).pos < 16384]
    assert store.damaged_indexes == lost
    assert (store.end_index, store.committed_index) == (COUNT - 1, COUNT - 1)
    with pytest.raises(DamagedEntryError):
        store.entry(lost[0])
    store.close()
    store = a_ledger(tmp_path)
    assert store.damaged_indexes == lost, "the next start still knows"
    restore_all(store, entries)
    assert all_entries(store) == entries
    assert bodies(store) == expected
    store.close()
    assert bytes_of(tmp_path) == whole
    store = a_ledger(tmp_path)
    assert store.damaged_indexes == []
    store.close()


def test_a_file_that_is_lost_together_with_the_index_is_not_guessed(tmp_path: Path):
    closed_with(tmp_path)
    LedgerFiles(tmp_path).data[1].unlink()
    shutil.rmtree(tmp_path / "dledger-n0" / "index")
    with pytest.raises(StoreFormatError, match="a file is missing between 0 and 16384"):
        a_ledger(tmp_path)


def test_a_lost_index_and_damaged_headers_are_both_repaired(tmp_path: Path):
    entries = closed_with(tmp_path)
    whole = bytes_of(tmp_path)
    for index in (20, 21, 50):
        overwrite(
            LedgerFiles(tmp_path).data[header_of(entries[index]).pos // 8192], header_of(entries[index]).pos % 8192, b"x" * 90
        )
    shutil.rmtree(tmp_path / "dledger-n0" / "index")
    store = a_ledger(tmp_path)
    assert store.damaged_indexes == [20, 21, 50]
    assert store.end_index == COUNT - 1
    restore_all(store, entries)
    assert all_entries(store) == entries
    store.close()
    assert bytes_of(tmp_path) == whole


def test_a_node_that_lost_its_last_file_does_not_vote_before_it_has_the_entries_again(tmp_path: Path):
    entries = closed_with(tmp_path)
    LedgerFiles(tmp_path).data[-1].unlink()
    store = LedgerStore(tmp_path, LEDGER_CONFIG, node_id="n0", index_file_bytes=2048)
    sentences = store.open().sentences()
    assert store.end_index < COUNT - 1
    assert store.term_vote.is_learner
    assert any(f"confirmed entries behind {store.end_index} are lost here" in sentence for sentence in sentences)
    store.append_entries(entries[store.end_index + 1 :])
    store.commit(COUNT - 1)
    assert all_entries(store) == entries
    store.close()
    assert a_ledger(tmp_path).term_vote.is_learner, "until the leader admits it"


def test_a_whole_node_keeps_its_vote(tmp_path: Path):
    closed_with(tmp_path)
    store = a_ledger(tmp_path)
    store.begin_save_term(store.term_vote._replace(is_learner=False))()
    store.close()
    crash(tmp_path)
    assert not a_ledger(tmp_path).term_vote.is_learner


@pytest.mark.parametrize("index", [0, 1, 2, 3, COUNT - 3, COUNT - 1])
def test_the_first_and_the_last_messages_of_queues_come_back_into_them(tmp_path: Path, index: int):
    entries = closed_with(tmp_path)
    damage(tmp_path, entries[index])
    crash(tmp_path)
    store = a_ledger(tmp_path)
    assert store.damaged_indexes == [index]
    restore_all(store, entries)
    assert bodies(store) == [[bytes([number]) * 60 for number in range(queue, COUNT, QUEUES)] for queue in range(QUEUES)]
    assert store.queues.next_offset(("orders", index % QUEUES)) == COUNT // QUEUES
    store.close()


def test_a_reader_waits_for_a_message_that_another_node_may_have_and_skips_one_that_none_has(tmp_path: Path):
    entries = closed_with(tmp_path)
    damage(tmp_path, entries[30])
    store = a_ledger(tmp_path)
    found: list[int] = []
    store.repair.on_damage = lambda: found.extend(store.damaged_indexes)
    with pytest.raises(UnreadableError, match="Message 10 of queue 0 of orders is damaged here"):
        store.reading.messages("orders", 0, 10, 5)
    assert found == [30]
    store.repair.give_up(30, 30)
    assert [view[88:89] for view in store.reading.messages("orders", 0, 10, 1).records] == [bytes([33])]
    restore_all(store, entries)
    assert [view[88:89] for view in store.reading.messages("orders", 0, 10, 1).records] == [bytes([30])]
    assert not store.repair.given_up
    store.close()


def test_entries_that_do_not_fit_between_their_neighbours_are_refused(tmp_path: Path):
    entries = closed_with(tmp_path)
    damage(tmp_path, entries[30], 400)  # 30 and those behind it
    crash(tmp_path)
    store = a_ledger(tmp_path)
    assert store.damaged_indexes[:2] == [30, 31]
    longer = a_ledger(tmp_path / "other")
    append_committed(longer, [a_message(body=b"other" * 30) for _ in range(40)])
    for wrong in (
        [entries[29]],
        [longer.entry(30) or b""],
        [entries[30], entries[29]],
        [entries[31], entries[30]],
        [entries[30][:-1]],
    ):
        with pytest.raises(EntryError):
            store.repair.begin_restore(wrong)
    flipped = bytearray(entries[30])
    flipped[-60] ^= 1
    with pytest.raises(EntryError, match="holds no message"):
        store.repair.begin_restore([bytes(flipped)])
    store.close()
    longer.close()


def test_the_checksum_of_a_damaged_record_tells_which_entry_is_right(tmp_path: Path):
    entries = closed_with(tmp_path)
    damage(tmp_path, entries[30])
    store = a_ledger(tmp_path)
    assert store.repair.fits_checksum(entries[30]) is True
    wrong = bytearray(entries[30])
    wrong[48 + 20] ^= 0xFF
    assert store.repair.fits_checksum(bytes(wrong)) is False
    store.close()


def test_an_entry_that_is_not_in_memory_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    entries = closed_with(tmp_path)
    store = a_ledger(tmp_path)
    monkeypatch.setattr(DiskFile, "read_into_now", lambda *_: False)
    with pytest.raises(NotInMemoryError):
        store.reads.read_now(lambda: store.is_intact(30), ReadAttempt())
    assert store.is_intact(30), "a reader that waits for the disk gets it"
    assert store.damaged_indexes == []
    assert all_entries(store) == entries
    store.close()

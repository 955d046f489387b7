"""The stores of two nodes of a DLedger group that Apache's brokers wrote: read entry by entry, opened, and written on."""

from __future__ import annotations

import shutil
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from skyrocket.protocol.message.record import decode_record
from skyrocket.store.ledger.entry import HEADER_BYTES, pack_header
from skyrocket.store.ledger.entry_index import pack_index_entry
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import (
    LedgerCheckpoint,
    TermVote,
    decode_ledger_checkpoint,
    decode_term,
    encode_ledger_checkpoint,
    encode_term,
)
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.offline.verify import VerifyCounts, verify
from tests.support.stores.ledgers import GOLDEN_LEDGER_CONFIG, LedgerFiles, all_entries, golden_ledger, header_of
from tests.support.stores.store_messages import a_message

LENGTHS = {("TD", 0): 81, ("TD", 1): 44, ("TD", 2): 42, ("TD", 3): 42}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("golden")
    for node in ("n0", "n2"):
        golden_ledger(directory, node)
    return directory


def _copy(unpacked: Path, node: str, to: Path) -> Path:
    shutil.copytree(unpacked / node, to, ignore=shutil.ignore_patterns("index"))
    (to / f"dledger-{node}" / "index").mkdir(parents=True, exist_ok=True)
    for each in (unpacked / node / f"dledger-{node}" / "index").iterdir():
        target = to / f"dledger-{node}" / "index" / each.name
        with each.open("rb") as source, target.open("wb") as file:  # sparse: only the first bytes are set
            file.write(source.read(64 * 1024))
            file.truncate(each.stat().st_size)
    return to


def _open(root: Path, node: str) -> LedgerStore:
    store = LedgerStore(root, GOLDEN_LEDGER_CONFIG, node_id=node)
    store.open()
    return store


@pytest.mark.parametrize("node", ["n0", "n2"])
def test_apaches_nodes_store_verifies_without_findings(unpacked: Path, node: str) -> None:
    verified = VerifyCounts()
    assert list(verify(unpacked / node, verified=verified)) == []
    assert (verified.messages, verified.queues) == (209, 4)


def test_every_entry_of_apaches_store_is_read_and_both_nodes_have_the_same(unpacked: Path, tmp_path: Path) -> None:
    stores = [_open(_copy(unpacked, node, tmp_path / node), node) for node in ("n0", "n2")]
    first, second = map(all_entries, stores)
    assert first == second
    headers = [header_of(entry) for entry in first]
    assert [header.index for header in headers] == list(range(209))
    terms = {2: range(31), 3: range(31, 36), 4: range(36, 209)}
    assert all(header.term == term for term, indexes in terms.items() for header in headers if header.index in indexes)
    assert all(b.pos in (a.end, (a.pos // 65536 + 1) * 65536) for a, b in pairwise(headers))
    for header, entry in zip(headers, first, strict=True):
        assert decode_record(memoryview(entry)[HEADER_BYTES:]).physical_offset == header.pos + 48
    for store in stores:
        assert (store.begin_index, store.end_index, store.end_term, store.committed_index) == (0, 208, 4, 208)
        assert {tuple(key): queue.max_offset for key, queue in store.queues} == LENGTHS
        assert store.term_vote == TermVote(4, "n2")
        store.close()


def test_headers_and_index_entries_encode_to_apaches_bytes(unpacked: Path, tmp_path: Path) -> None:
    store = _open(_copy(unpacked, "n2", tmp_path / "n2"), "n2")
    index = LedgerFiles(unpacked / "n2", "n2").index[0].read_bytes()[: 32 * 210]
    for entry in all_entries(store):
        header = header_of(entry)
        assert pack_header(header) == entry[:HEADER_BYTES]
        assert pack_index_entry(header) == index[32 * header.index : 32 * header.index + 32]
    assert index[32 * 209 :] == bytes(32)
    store.close()


def test_apaches_small_files_are_decoded_and_encoded_to_the_same_bytes(unpacked: Path) -> None:
    term = (unpacked / "n2/dledger-n2/currterm").read_bytes()
    assert decode_term(term) == TermVote(4, "n2")
    assert encode_term(decode_term(term)) == term
    checkpoint = (unpacked / "n2/dledger-n2/checkpoint").read_bytes()
    assert decode_ledger_checkpoint(checkpoint) == LedgerCheckpoint(208, 208)
    assert encode_ledger_checkpoint(decode_ledger_checkpoint(checkpoint)) == checkpoint


def test_a_padding_like_apaches_ends_each_full_file(unpacked: Path, tmp_path: Path) -> None:
    """Copy the entries one by one into an empty log: the data files become those that Apache wrote."""
    source = _open(_copy(unpacked, "n2", tmp_path / "n2"), "n2")
    copied = LedgerStore(tmp_path / "copy", GOLDEN_LEDGER_CONFIG, node_id="n2")
    copied.open()
    copied.append_entries(all_entries(source))
    copied.flush()
    for theirs, ours in zip(LedgerFiles(unpacked / "n2", "n2").data, LedgerFiles(tmp_path / "copy", "n2").data, strict=True):
        assert theirs.read_bytes() == ours.read_bytes()
    theirs_index, our_index = (LedgerFiles(root, "n2").index[0] for root in (unpacked / "n2", tmp_path / "copy"))
    assert theirs_index.stat().st_size == our_index.stat().st_size == 167_772_160
    with theirs_index.open("rb") as a, our_index.open("rb") as b:
        assert a.read(8192) == b.read(8192)
    source.close()
    copied.close()


def test_apaches_store_takes_more_messages_and_verifies(unpacked: Path, tmp_path: Path) -> None:
    root = _copy(unpacked, "n0", tmp_path / "n0")
    store = _open(root, "n0")
    store.begin_save_term(TermVote(5, "n0"))()
    store.set_term(5)
    store.append([a_message("TD", 0, b"new", keys="a-key")], 1_794_725_517_342)
    assert store.queues.get("TD", 0).max_offset == 81, "not confirmed yet"  # type: ignore[union-attr]
    store.flush()
    store.commit(209)
    (record,) = store.reading.messages("TD", 0, 81, 1).records
    assert decode_record(record).body == b"new"
    store.close()
    assert list(verify(root)) == []
    with OfflineStore(root) as offline:
        assert len(list(offline.records())) == 210
        assert [found.record.body for found in offline.query("TD", "a-key")] == [b"new"]
        assert [found.record.queue_offset for found in offline.queue_records("TD", 1)] == list(range(44))


def test_queues_that_apaches_recovery_cut_are_whole_again(unpacked: Path, tmp_path: Path) -> None:
    """Its walk after a crash forgets the headers, and cuts what lies behind: measured, 61 entries became 51."""
    root = _copy(unpacked, "n0", tmp_path / "n0")
    for queue_id, kept in enumerate((70, 40, 35, 30)):
        with (root / f"consumequeue/TD/{queue_id}/00000000000000000000").open("r+b") as file:
            file.seek(20 * kept)
            file.write(bytes(6000 - 20 * kept))
    assert list(verify(root)), "the damaged state is none"
    store = _open(root, "n0")
    assert {tuple(key): queue.max_offset for key, queue in store.queues} == LENGTHS
    for (topic, queue_id), length in LENGTHS.items():
        offsets = [struct.unpack_from(">q", record, 20)[0] for record in store.reading.messages(topic, queue_id, 0, 100).records]
        assert offsets == list(range(length))
    store.close()
    assert list(verify(root)) == []


def test_what_the_group_has_not_confirmed_is_in_the_log_and_not_visible(unpacked: Path, tmp_path: Path) -> None:
    root = _copy(unpacked, "n0", tmp_path / "n0")
    LedgerFiles(root, "n0").checkpoint.write_bytes(b"endIndex=208\ncommittedIndex=200\n")
    shutil.rmtree(root / "consumequeue")  # what Apache's queues have is confirmed, whatever the checkpoint says
    store = _open(root, "n0")
    assert (store.end_index, store.committed_index) == (208, 200)
    visible = sum(queue.max_offset for _, queue in store.queues)
    assert visible == 201
    for key, length in LENGTHS.items():
        assert store.queues.next_offset(key) == length, "a new message would get the offset of one that may be confirmed"
    store.commit(208)
    assert {tuple(key): queue.max_offset for key, queue in store.queues} == LENGTHS
    store.close()

"""A bit flips anywhere in the files of a DLedger node, or they hold other bytes. No wrong entry is ever returned.

An entry that is damaged is called damaged, all others are returned as they were, and a restored one is whole again.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.store.errors import StoreError
from skyrocket.store.ledger.entry import HEADER_BYTES
from skyrocket.store.ledger.ledger_store import DamagedEntryError, LedgerStore
from skyrocket.store.ledger.node_files import TermVote
from tests.support.stores.ledgers import LEDGER_CONFIG, a_ledger, all_entries, append_committed, restore_entry
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import ROOT, START_MS, a_message, read_queue

FLIPS = int(os.environ.get("SKYROCKET_FLIPS", "2000")) // 20
PARTS = 5
COUNT = 80
DATA, INDEX = f"{ROOT}/dledger-n0/data/", f"{ROOT}/dledger-n0/index/"


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, bytes], list[bytes]]:
    disk = SimulatedDisk()
    store = a_ledger(ROOT, files=disk)
    for number in range(COUNT):
        if store.term_vote.term < number // 30:
            store.begin_save_term(TermVote(number // 30))()
        store.set_term(number // 30)
        append_committed(store, [a_message(queue_id=number % 3, body=bytes([number]) * (40 + number * 7), tags="red")], START_MS)
    entries = all_entries(store)
    store.close()
    return disk.contents(), entries


def flipped(contents: dict[str, bytes], rng: Random, kinds: tuple[str, ...], flips: int) -> SimulatedDisk:
    changed = {path: bytearray(data) for path, data in contents.items()}
    for _ in range(flips):
        path = rng.choice([path for path in changed if path.startswith(kinds)])
        used = len(contents[path].rstrip(b"\0"))
        changed[path][rng.randrange(used)] ^= 1 << rng.randrange(8)
    disk = SimulatedDisk()
    for path, data in changed.items():
        disk.write_file(path, bytes(data))
    return disk


def check(store: LedgerStore, entries: list[bytes], *, has_checksums: bool) -> list[int]:
    """Return the entries that are called damaged. Without checksums only bodies are known to be right, as in Apache's store."""
    damaged = []
    for index in range(store.end_index + 1):
        try:
            entry = store.entry(index)
        except DamagedEntryError:
            damaged.append(index)
            continue
        assert entry is not None
        assert entry[:36] == entries[index][:36], f"entry {index} has another header"  # nobody looks at the two CRCs there
        if has_checksums:
            assert entry[HEADER_BYTES:] == entries[index][HEADER_BYTES:], f"entry {index} is another one"
        assert record_of(entry).body == record_of(entries[index]).body
    known = list(map(record_of, entries))
    for queue_id in range(3):
        assert not has_checksums or all(record in known for record in read_queue(store, queue_id=queue_id))
    return damaged


def record_of(entry: bytes) -> Record:
    return decode_record(memoryview(entry)[HEADER_BYTES:])


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["data", "index"])
def test_a_flipped_bit_costs_at_most_its_entry(whole: tuple[dict[str, bytes], list[bytes]], kind: str, part: int) -> None:
    contents, entries = whole
    for seed in range(part, FLIPS, PARTS):
        rng = Random(seed)
        disk = flipped(contents, rng, (DATA,) if kind == "data" else (INDEX,), 1)
        if seed % 2:  # everything is read again, and nothing but the files themselves is believed
            disk.write_file(f"{ROOT}/checkpoint", b"")
        store = a_ledger(ROOT, files=disk)
        damaged = check(store, entries, has_checksums=seed % 2 == 0)
        assert store.end_index == COUNT - 1, f"seed {seed}"
        assert len(damaged) <= (kind == "data"), f"seed {seed}"
        for index in list(store.damaged_indexes):
            restore_entry(store, entries[index])
            damaged.remove(index)
        assert check(store, entries, has_checksums=seed % 2 == 0) == damaged
        store.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_many_flipped_bits_are_a_typed_error_or_a_store_without_wrong_entries(
    whole: tuple[dict[str, bytes], list[bytes]], part: int
) -> None:
    contents, entries = whole
    for seed in range(part, FLIPS // 2, PARTS):
        rng = Random(seed)
        disk = flipped(contents, rng, (DATA, INDEX, f"{ROOT}/dledger-n0/checkpoint"), rng.choice((2, 8, 40)))
        if seed % 2:
            disk.write_file(f"{ROOT}/checkpoint", b"")
        store = LedgerStore(ROOT, LEDGER_CONFIG, node_id="n0", files=disk, index_file_bytes=2048)
        try:
            store.open()
        except StoreError:
            continue
        check(store, entries, has_checksums=seed % 2 == 0)
        store.close()

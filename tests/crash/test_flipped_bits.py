"""One bit anywhere in a store's files is flipped: no wrong byte is returned, and at most one message is lost.

The store is then read completely: by queue, physical offset and key. Missing messages are compared with what the flip hit.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from itertools import count
from random import Random

import pytest

from skyrocket.protocol.message.record import decode_record
from skyrocket.store.errors import StoreError
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import (
    FOREVER_MS,
    ROOT,
    START_MS,
    Ledger,
    Sent,
    a_message,
    an_open_store,
    queue_views,
    random_messages,
    unique_key,
)

FLIPS = int(os.environ.get("SKYROCKET_FLIPS", "1000"))
PARTS = 10
WHERE = ("commitlog", "consumequeue", "index", "checksums", "checkpoint")


@cache
def a_store(how: str) -> tuple[SimulatedDisk, Ledger]:
    """Return a store of three segments: closed, or killed with messages behind the checkpoint."""
    disk = SimulatedDisk()
    ledger = Ledger()
    rng, serial = Random(1), count()
    store = an_open_store(disk)
    for turn in range(12):
        ledger.append(store, random_messages(rng, serial, 6), START_MS + turn * 1000)
        if turn == 6:
            store.flush()
            store.checkpoint()
    if how == "closed":
        store.close()
        return disk, ledger
    assert store.write_late()
    return disk.kill(), ledger


def used_bytes(disk: SimulatedDisk, path: str) -> int:
    """Return the length of the content of a file, and a little more. Flips in the empty rest have no effect."""
    content = disk.nodes[path].content
    return min(len(content), len(bytes(content).rstrip(b"\0")) + 64)


def targets(disk: SimulatedDisk) -> dict[str, list[tuple[str, int]]]:
    """Return for each kind of file its paths, with the number of bytes to flip."""
    paths = {kind: [path for path in sorted(disk.nodes) if path.startswith(f"{ROOT}/{kind}")] for kind in WHERE}
    return {kind: [(path, used_bytes(disk, path)) for path in some] for kind, some in paths.items()}


class Reader:
    """Reads everything in every way, and compares each record with what was sent."""

    def __init__(self, store: MessageStore, ledger: Ledger) -> None:
        self.store = store
        self.ledger = ledger
        self.by_queue: set[str] = set()
        self.by_key: set[str] = set()
        self.by_place: set[str] = set()

    def read_all(self) -> None:
        for topic, queue_id in sorted({(s.message.topic, s.message.queue_id) for s in self.ledger.sent.values()}):
            before = -1
            for view in queue_views(self.store, topic, queue_id):
                sent = self._same(view)
                assert (sent.message.topic, sent.message.queue_id) == (topic, queue_id)
                assert sent.placed is not None
                assert sent.placed.queue_offset > before, "a queue is out of order"
                before = sent.placed.queue_offset
                self.by_queue.add(sent.unique)
        for sent in self.ledger.sent.values():
            assert sent.placed is not None
            view = self.store.reading.view_at(sent.placed.physical_offset)
            if view is not None:
                assert self._same(view).unique == sent.unique
                self.by_place.add(sent.unique)
            for view in self.store.reading.query(sent.message.topic, sent.unique, 0, FOREVER_MS, 8):
                assert self._same(view).unique == sent.unique
                self.by_key.add(sent.unique)

    def _same(self, view: memoryview) -> Sent:
        sent = self.ledger.sent.get(unique_key(decode_record(view)))
        assert sent is not None, "a message that nobody sent"
        assert view == sent.data, f"{sent.unique} is not what was written"
        return sent


def flip(original: SimulatedDisk, path: str, at: int, bit: int) -> SimulatedDisk:
    disk = original.copy()
    disk.nodes[path].content[at] ^= 1 << bit
    disk.nodes[path].durable[at] ^= 1 << bit
    return disk


def check_flip(how: str, kind: str, path: str, at: int, bit: int) -> Counter[str]:
    """Count the messages that this flip made unreadable by queue, by physical offset and by key."""
    original, ledger = a_store(how)
    disk = flip(original, path, at, bit)
    try:
        store = an_open_store(disk)
    except StoreError as error:
        raise AssertionError(f"the store does not open: {error}") from error
    reader = Reader(store, ledger)
    reader.read_all()
    queued = {sent.unique for sent in ledger.sent.values() if sent.is_queued}
    cost = Counter(
        {
            "queue": len(queued - reader.by_queue),
            "place": len(set(ledger.sent) - reader.by_place),
            "key": len(set(ledger.sent) - reader.by_key),
        }
    )
    assert cost["queue"] <= 1, f"{cost['queue']} messages are not in their queues"
    assert cost["place"] <= 1, f"{cost['place']} messages are not in the log"
    if kind not in ("commitlog", "checksums"):
        assert not cost["place"], "the log was not touched, and lost a message"
    check_going_on(store)
    return cost


def check_going_on(store: MessageStore) -> None:
    messages = [a_message("orders", 0, b"new %d" % n, unique=f"NEW{n}", keys="later") for n in range(3)]
    placed = store.append(messages, START_MS * 2)
    offsets = [place.queue_offset for place in placed]
    found = store.reading.messages("orders", 0, offsets[0], 10)
    assert [decode_record(view).body for view in found.records] == [b"new 0", b"new 1", b"new 2"]
    assert len(store.reading.query("orders", "later", 0, FOREVER_MS, 10)) == 3, "new messages are not found by key"
    store.close()


def draws(how: str, kind: str, part: int) -> list[tuple[str, int, int]]:
    rng = Random(f"{how} {kind} {part}")
    files = targets(a_store(how)[0])[kind]
    share = FLIPS // (2 * len(WHERE)) // PARTS
    chosen = rng.choices(files, weights=[size for _, size in files], k=share)
    return [(path, rng.randrange(size), rng.randrange(8)) for path, size in chosen]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", WHERE)
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_flipped_bit_never_returns_a_wrong_byte_and_costs_at_most_one_message(how: str, kind: str, part: int):
    for path, at, bit in draws(how, kind, part):
        try:
            check_flip(how, kind, path, at, bit)
        except Exception as error:
            raise AssertionError(f"bit {bit} of byte {at} of {path} ({how}): {type(error).__name__}: {error}") from error


def checkpoint_bits() -> list[tuple[int, int]]:
    return [(at, bit) for at in (*range(40, 48), *range(64, 96)) for bit in range(8)]


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_flipped_bit_in_the_checkpoint_does_not_move_the_end_of_the_log(how: str):
    original, ledger = a_store(how)
    end = max(sent.placed.physical_offset + sent.placed.size for sent in ledger.sent.values() if sent.placed is not None)
    for at, bit in checkpoint_bits():
        store = an_open_store(flip(original, f"{ROOT}/checkpoint", at, bit))
        assert store.log.end == end, f"bit {bit} of byte {at}"
        store.close()

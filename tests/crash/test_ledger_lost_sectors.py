"""The power fails at a node of a DLedger group, and each sector that was not synced is kept or lost at random.

What the node had called durable is in its log, byte for byte. Whatever else it has once was there. What is confirmed is visible,
in order, and nothing else is; no queue offset is given out twice. Recovering twice gives the same files as recovering once.
A quarter of `SKYROCKET_CRASH_DRAWS` is the number of lives: 200, and 500 with `make crash`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.ledger.entry import HEADER_BYTES
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import TermVote
from skyrocket.store.message import UNQUEUED
from tests.support.stores.ledgers import LEDGER_CONFIG, a_ledger, all_entries, header_of
from tests.support.stores.simulated_disk import PowerCut, SimulatedDisk
from tests.support.stores.store_messages import ROOT, START_MS, random_messages, read_queue

DRAWS = int(os.environ.get("SKYROCKET_CRASH_DRAWS", "800")) // 4
PARTS = 10


class NodeLife:
    """A node's log as it should be, and all that was ever in it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.serial = count()
        self.now_ms = START_MS
        self.config = replace(LEDGER_CONFIG, undispatched_max=self.rng.choice((3, 1000)))
        self.disk = SimulatedDisk(self.rng.randrange(2**32))
        self.entries: list[bytes] = []
        self.history: dict[int, set[bytes]] = defaultdict(set)
        self.durable = -1
        self.committed = -1  # as the group says; the node may have forgotten
        self.saved = TermVote(1)
        self.saving: TermVote | None = None

    def open(self) -> LedgerStore:
        store = a_ledger(ROOT, self.config, files=self.disk)
        self.check(store)
        store.set_term(max(store.log.term, self.saved.term))
        return store

    def live(self, steps: int, *, power_cut: bool) -> None:
        if power_cut:
            self.disk.cut_power_at(self.rng.randrange(1, self.rng.choice((3, 8)) * steps + 10))
        try:
            store = self.open()
            for _ in range(steps):
                self._step(store)
            if self.rng.random() < 0.2:
                store.close()
        except PowerCut:
            pass

    def _step(self, store: LedgerStore) -> None:
        rng = self.rng
        self.now_ms += rng.choice((0, 1, 900))
        ways: list[tuple[int, Callable[[LedgerStore], None]]] = [
            (50, self._append),
            (15, self._flush),
            (12, self._commit),
            (10, self._truncate),
            (5, lambda each: each.begin_ledger_checkpoint()()),
            (6, lambda each: each.checkpoint()),
            (4, lambda _: self.disk.writeback(rng)),
            (5, self._save_term),
        ]
        rng.choices([way for _, way in ways], [weight for weight, _ in ways])[0](store)

    def _append(self, store: LedgerStore) -> None:
        first = store.end_index + 1
        messages = random_messages(self.rng, self.serial, self.rng.randrange(1, 12))
        del self.entries[first:]
        try:
            store.append(messages, self.now_ms)
        finally:
            if not self.disk.is_off:
                self._note(store, first)
            else:
                self.unknown_from = first
        assert store.end_index == first + len(messages) - 1

    def _note(self, store: LedgerStore, first: int) -> None:
        for index in range(first, store.end_index + 1):
            entry = store.entry(index)
            assert entry is not None
            self.entries.append(entry)
            self.history[index].add(entry)

    def _flush(self, store: LedgerStore) -> None:
        job = store.begin_flush()
        if job is None:
            return
        if self.rng.random() < 0.3:  # while the job runs in its thread
            self.rng.choice((self._append, self._truncate))(store)
        job.run()
        store.finish_flush(job)
        self.durable = store.durable_index
        assert self.durable <= store.end_index

    def _commit(self, store: LedgerStore) -> None:
        if self.durable > self.committed:
            self.committed = self.rng.randrange(self.committed, self.durable) + 1
        store.commit(self.committed)

    def _truncate(self, store: LedgerStore) -> None:
        lowest = max(store.committed_index, self.committed) + 1
        if lowest > store.end_index:
            return
        index = self.rng.randrange(lowest, store.end_index + 1)
        cut = self.entries[index:]
        self.durable = min(self.durable, index - 1)
        store.truncate(index)
        del self.entries[index:]
        assert store.end_index == index - 1
        store.set_term(store.log.term + 1)
        if self.rng.random() < 0.3:  # the leader has the same entries after all
            store.append_entries(cut)
            self.entries += cut

    def _save_term(self, store: LedgerStore) -> None:
        self.saving = TermVote(store.term_vote.term + 1, self.rng.choice((None, "n0", "n12")))
        store.begin_save_term(self.saving)()
        self.saved, self.saving = self.saving, None

    def crash(self) -> None:
        self.disk = self.disk.kill() if self.rng.random() < 0.1 else self.disk.crash(self.rng)

    def check(self, store: LedgerStore) -> None:
        found = all_entries(store)
        assert store.end_index == len(found) - 1
        assert store.end_index >= self.durable, f"{self.durable} was durable, and the log ends with {store.end_index}"
        assert found[: self.durable + 1] == self.entries[: self.durable + 1], "a durable entry has changed"
        for index, entry in enumerate(found[self.durable + 1 :], start=self.durable + 1):
            assert entry in self.history[index] or index >= len(self.entries), f"entry {index} never was"
            assert header_of(entry).index == index
        assert store.committed_index <= self.committed
        self._check_visible(store, found)
        if self.saved.term > 1 or store.term_vote.term > 0:
            assert store.term_vote in (self.saved, self.saving)
            self.saved, self.saving = store.term_vote, None
        self.entries = found
        self.durable = store.durable_index
        for index, entry in enumerate(found):
            self.history[index].add(entry)
        store.commit(self.committed)
        self._check_visible(store, found)

    def _check_visible(self, store: LedgerStore, found: list[bytes]) -> None:
        records = [decode_record(memoryview(entry)[HEADER_BYTES:]) for entry in found]
        queued: dict[tuple[str, int], list[Record]] = defaultdict(list)
        following: dict[tuple[str, int], int] = {}
        for index, record in enumerate(records):
            if record.sys_flag & TRANSACTION_MASK in UNQUEUED:
                continue
            key = (record.topic, record.queue_id)
            following[key] = record.queue_offset + 1
            if index <= store.committed_index:
                queued[key].append(record)
        for key, expected in queued.items():
            assert read_queue(store, *key) == expected
        for key, queue in store.queues:
            assert queue.max_offset == len(queued[tuple(key)])
        for key, offset in following.items():
            assert store.queues.next_offset(key) == offset


def draw(seed: int) -> None:
    node = NodeLife(seed)
    for _ in range(node.rng.choice((1, 2, 3))):
        node.live(node.rng.randrange(1, 20), power_cut=node.rng.random() < 0.7)
        node.crash()
    if node.rng.random() < 0.3:  # the power goes again, while the store recovers
        node.live(0, power_cut=True)
        node.crash()
    node.open().close()
    once = node.disk.contents()
    node.open().close()
    assert node.disk.contents() == once, "recovering twice is not recovering once"
    node.disk = node.disk.crash(node.rng)
    store = node.open()
    node._append(store)
    store.flush()
    node.durable = store.durable_index
    store.close()
    node.open().close()


@pytest.mark.parametrize("part", range(PARTS))
def test_durable_entries_survive_a_power_failure_and_only_confirmed_ones_are_visible(part: int) -> None:
    for seed in range(part, DRAWS, PARTS):
        try:
            draw(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error

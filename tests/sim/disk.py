"""A disk whose writes are lost, torn or damaged by a power cut unless they were synced."""

from __future__ import annotations

import random

from skyrocket.protocol.bodies.dledger import DLedgerEntry
from skyrocket.raft.ledger import LedgerBounds
from skyrocket.raft.ports import HardState


class SimDisk:
    """The log and the term file of one node, in the page cache and on the platter.

    A write of the log is a pair: the index behind which everything is cut, and the entries that follow. Recovery reads entries up
    to the first that is missing, torn or damaged, so a power cut leaves a prefix of the writes that were not synced.
    """

    def __init__(self) -> None:
        self.entries: list[DLedgerEntry] = []
        self.state: HardState | None = None
        self.checkpoint = -1
        self._platter: list[DLedgerEntry] = []
        self._platter_state: HardState | None = None
        self._unsynced: list[tuple[int, list[DLedgerEntry]]] = []
        self._synced_writes = 0

    # Writing ----------------------------------------------------------------------------------------------------------

    def write(self, keep_index: int, entries: list[DLedgerEntry]) -> None:
        _apply(self.entries, keep_index, entries)
        self._unsynced.append((keep_index, entries))

    @property
    def writes(self) -> int:
        """All writes since the beginning. `sync` takes this number, as it was when the sync began."""
        return self._synced_writes + len(self._unsynced)

    @property
    def is_dirty(self) -> bool:
        return bool(self._unsynced)

    def sync(self, writes: int) -> None:
        count = writes - self._synced_writes
        if count > 0:
            for keep_index, entries in self._unsynced[:count]:
                _apply(self._platter, keep_index, entries)
            del self._unsynced[:count]
            self._synced_writes = writes

    def write_state(self, state: HardState) -> None:
        self.state = state

    def sync_state(self, state: HardState) -> None:
        self._platter_state = state

    # Crashing ---------------------------------------------------------------------------------------------------------

    def cut_power(self, rng: random.Random) -> None:
        """Keep a prefix of what was not synced; the write behind it is torn or damaged."""
        kept = rng.randint(0, len(self._unsynced))
        for keep_index, entries in self._unsynced[:kept]:
            _apply(self._platter, keep_index, entries)
        if kept < len(self._unsynced):
            keep_index, entries = self._unsynced[kept]
            _apply(self._platter, keep_index, entries[: rng.randint(0, len(entries))])
        self._unsynced.clear()
        self._synced_writes = 0
        self.entries = list(self._platter)
        if rng.random() < 0.5:  # an unsynced term file is there, or the one before
            self._platter_state = self.state
        self.state = self._platter_state
        self.checkpoint = min(self.checkpoint, len(self.entries) - 1)

    def wipe(self) -> None:
        self.__init__()  # type: ignore[misc]

    # Starting ---------------------------------------------------------------------------------------------------------

    def recover(self) -> LedgerBounds:
        """Sync the term file, as a broker does before it takes part in a group, and return what the log contains."""
        self._platter_state = self.state
        if not self.entries:
            return LedgerBounds()
        last = self.entries[-1]
        return LedgerBounds(0, last.index, last.term, last.pos + last.size, min(self.checkpoint, last.index))


def _apply(entries: list[DLedgerEntry], keep_index: int, added: list[DLedgerEntry]) -> None:
    del entries[keep_index + 1 :]
    entries.extend(added)

"""What the state machine knows of the log: its bounds, the position of its end, and how entries must follow each other."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from skyrocket.protocol.bodies.dledger import DLedgerEntry
from skyrocket.protocol.ledger_entry import ENTRY_HEADER_BYTES, ENTRY_MAGIC
from skyrocket.raft.ports import LogPoint

PADDING_BYTES_MIN: Final = 8
"""Free bytes that stay behind every entry of a data file, for the mark of its padding."""


class LedgerBounds(NamedTuple):
    """The log as the store found it. An empty log has begin and end -1 and term -1."""

    begin_index: int = -1
    end_index: int = -1
    end_term: int = -1
    end_position: int = 0
    commit_index: int = -1
    """The last index that is known to be committed; DLedger's `checkpoint` has it."""


class Ledger(Struct):
    """The log in memory: written, not necessarily durable. `durable` is the last index that is."""

    segment_bytes: int
    begin: int = -1
    end: int = -1
    end_term: int = -1
    end_position: int = 0
    epoch: int = 0
    durable: int = -1

    @property
    def end_point(self) -> LogPoint:
        return LogPoint(self.epoch, self.end)

    def has(self, index: int) -> bool:
        return self.end >= 0 and self.begin <= index <= self.end

    def landing(self, size: int) -> int:
        """Return the position at which the next entry lands."""
        return landing_position(self.end_position, size, self.segment_bytes)

    def append(self, entry: DLedgerEntry) -> None:
        if self.end < 0:
            self.begin = entry.index
        self.end = entry.index
        self.end_term = entry.term
        self.end_position = entry.pos + entry.size

    def truncate(self, last: DLedgerEntry) -> None:
        """Make `last`, which is stored, the end."""
        self.end = last.index
        self.end_term = last.term
        self.end_position = last.pos + last.size
        self.durable = min(self.durable, self.end)
        self.epoch += 1

    def reset(self, position: int) -> None:
        """Remove everything. The next entry has this position."""
        self.begin = -1
        self.end = -1
        self.end_term = -1
        self.end_position = position
        self.durable = -1
        self.epoch += 1

    def mark_durable(self, point: LogPoint) -> bool:
        """Whether more is durable than before."""
        if point.epoch != self.epoch or point.index <= self.durable:
            return False
        self.durable = min(point.index, self.end)
        return True


def landing_position(end_position: int, size: int, segment_bytes: int) -> int:
    """Return where an entry of `size` bytes lands. One that does not fit into the rest of its data file starts the next."""
    left = segment_bytes - end_position % segment_bytes
    return end_position + left if size + PADDING_BYTES_MIN > left else end_position


def find_fault(entries: list[DLedgerEntry], leader_term: int) -> str | None:
    """Say what an honest leader would not send, or return None."""
    before = None
    for entry in entries:
        if entry.magic != ENTRY_MAGIC:
            return f"entry {entry.index} has magic {entry.magic} instead of {ENTRY_MAGIC}"
        if entry.size != ENTRY_HEADER_BYTES + len(entry.body):
            return f"entry {entry.index} has size {entry.size}, but {len(entry.body)} bytes of body and a header of 48"
        if entry.index < 0 or entry.pos < 0:
            return f"entry {entry.index} is at position {entry.pos}"
        if not 0 <= entry.term <= leader_term:
            return f"entry {entry.index} has term {entry.term} in a push of term {leader_term}"
        if before is not None and (entry.index != before.index + 1 or entry.term < before.term):
            return f"entry {entry.index} of term {entry.term} follows entry {before.index} of term {before.term}"
        before = entry
    return None

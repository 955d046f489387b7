"""The entries of the ledger, and the state of a query that its entries amount to. Pure.

An entry is a message:

    tag and key   a hash of the query id, to find the query's entries
    properties    SR_QUERY, the query id; SR_BATCH, the batch id; SR_STATE, one of the three states; SR_PART, such as 1/3;
                  SR_MARK; SR_EPOCH, SR_RUN and SR_FENCED, which `fence` explains
    body          "committing": a part of the handles and starting offsets, as `CommittingBody`; otherwise one byte

A driver writes "opened" once, before its first commit, to take its epoch. It writes "committing" before it commits the first half
message of a batch. That entry has everything that is needed to complete the commit: the handles of the half messages, and the end
of each queue that they go to. A large entry is split into parts with a common mark. The parts are written in order, so the entry
counts once its last part exists. The driver writes "committed" after it has committed the last half message.

The most advanced entry counts, not the last one: a request that got no answer is repeated, and its first copy may arrive late,
behind entries of later batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.protocol.message.properties import KEYS, TAGS, UNIQUE_KEY, WAIT
from skyrocket.spark.errors import SparkSourceError
from skyrocket.spark.sink.fence import NO_FENCE, Fence, fence_properties, parse_fence
from skyrocket.spark.sink.handles import Handles, PackedHandles, unpack_handles

OPENED: Final = "opened"
COMMITTING: Final = "committing"
COMMITTED: Final = "committed"
PART_BYTES_MAX: Final = 1024 * 1024
_QUERY, _BATCH, _STATE, _PART, _MARK = "SR_QUERY", "SR_BATCH", "SR_STATE", "SR_PART", "SR_MARK"
_NO_BODY: Final = b"-"  # brokers refuse empty bodies
_NO_BATCH: Final = -1


class LedgerError(SparkSourceError):
    """The ledger has an entry that cannot be read."""


Rank = tuple[int, bool, int]
_NO_RANK: Final[Rank] = (_NO_BATCH, False, 0)


class CommittingBody(msgspec.Struct, frozen=True, array_like=True):
    starts: list[tuple[str, str, int, int]]  # topic, broker, queue id, offset
    handles: list[PackedHandles]


class LedgerEntry(NamedTuple):
    """One message of the ledger: an entry, or a part of one."""

    query_id: str
    batch_id: int
    state: str
    part: int  # counted from 1
    parts: int
    mark: str
    body: bytes
    fence: Fence = NO_FENCE
    stored_ms: int = 0  # by the broker's clock

    @property
    def rank(self) -> Rank:
        """How advanced the entry is. A committed batch is more advanced than the same batch being committed, by any driver."""
        return self.batch_id, self.state == COMMITTED, self.fence.epoch


# --- the state of a query


@dataclass(frozen=True, slots=True)
class NoBatch:
    """The query has committed no batch, or its entries have expired."""


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """The query has committed this batch completely."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class BatchCommitting:
    """The query began to commit this batch, and the ledger has no record of its completion."""

    batch_id: int
    starts: Mapping[Queue, int]
    handles: Sequence[Handles]


LedgerState = NoBatch | BatchCommitted | BatchCommitting


class QueryLedger(NamedTuple):
    """What the ledger has about a query."""

    state: LedgerState
    fence: Fence


class LedgerReading:
    """Collects a query's entries in one queue of the ledger, the newest first, until they show the query's state."""

    def __init__(self) -> None:
        self.newest_ms = 0  # when the last entry was stored
        self.fence = NO_FENCE  # the highest
        self.state: LedgerState = NoBatch()  # the most advanced
        self.rank = _NO_RANK  # of the state
        self._parts: dict[str, dict[int, LedgerEntry]] = {}  # by mark: parts of better entries, whose last part exists

    def add(self, entry: LedgerEntry) -> None:
        self.newest_ms = max(self.newest_ms, entry.stored_ms)
        self.fence = max(self.fence, entry.fence)
        if entry.state == OPENED or entry.rank <= self.rank:
            return
        if entry.state == COMMITTED:
            self._set_state(entry.rank, BatchCommitted(entry.batch_id))
            return
        if entry.part == entry.parts:  # an entry without its last part does not count
            self._parts.setdefault(entry.mark, {})
        found = self._parts.get(entry.mark)
        if found is not None:
            found[entry.part] = entry
            if len(found) == entry.parts:
                self._set_state(entry.rank, _decode_committing([found[number] for number in range(1, entry.parts + 1)]))

    def _set_state(self, rank: Rank, state: LedgerState) -> None:
        self.state, self.rank = state, rank
        self._parts = {mark: found for mark, found in self._parts.items() if next(iter(found.values())).rank > rank}

    @property
    def is_conclusive(self) -> bool:
        """Whether the query's state is known, unless a late entry hides an earlier one that is more advanced."""
        return self.rank > _NO_RANK and not self._parts

    def check_complete(self) -> None:
        """Raise LedgerError if all entries were added and a part is missing."""
        if self._parts:
            raise LedgerError("The ledger has lost a part of the entry that lists the rows of an unfinished commit.")


def combine_readings(readings: Iterable[LedgerReading]) -> QueryLedger:
    """Return what the queues of the ledger have about a query: the most advanced state, and the highest fence."""
    every = [LedgerReading(), *readings]
    return QueryLedger(max(every, key=lambda each: each.rank).state, max(each.fence for each in every))


def _decode_committing(parts: list[LedgerEntry]) -> BatchCommitting:
    try:
        body = msgspec.msgpack.decode(zlib.decompress(b"".join(part.body for part in parts)), type=CommittingBody)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise LedgerError(f"An entry of the ledger cannot be decoded: {error}.") from error
    starts = {Queue(topic, broker, queue_id): offset for topic, broker, queue_id, offset in body.starts}
    return BatchCommitting(parts[0].batch_id, starts, [unpack_handles(packed) for packed in body.handles])


# --- entries


def opened_entry(query_id: str, fence: Fence) -> LedgerEntry:
    return LedgerEntry(query_id, _NO_BATCH, OPENED, 1, 1, "-", _NO_BODY, fence)


def committing_entries(query_id: str, begun: BatchCommitting, mark: str, fence: Fence = NO_FENCE) -> list[LedgerEntry]:
    """Return the parts of a "committing" entry, to be written in this order."""
    starts = [(*queue, offset) for queue, offset in begun.starts.items()]
    body = zlib.compress(msgspec.msgpack.encode(CommittingBody(starts, [each.pack() for each in begun.handles])), 1)
    pieces = [body[at : at + PART_BYTES_MAX] for at in range(0, len(body), PART_BYTES_MAX)]
    return [
        LedgerEntry(query_id, begun.batch_id, COMMITTING, number, len(pieces), mark, piece, fence)
        for number, piece in enumerate(pieces, start=1)
    ]


def committed_entry(query_id: str, batch_id: int, fence: Fence = NO_FENCE) -> LedgerEntry:
    return LedgerEntry(query_id, batch_id, COMMITTED, 1, 1, "-", _NO_BODY, fence)


def ledger_tag(query_id: str) -> str:
    return blake2b(query_id.encode(), digest_size=12).hexdigest()


def entry_properties(entry: LedgerEntry, message_id: str) -> dict[str, str]:
    tag = ledger_tag(entry.query_id)
    return {
        UNIQUE_KEY: message_id,
        WAIT: "true",
        TAGS: tag,
        KEYS: tag,
        _QUERY: entry.query_id,
        _BATCH: str(entry.batch_id),
        _STATE: entry.state,
        _PART: f"{entry.part}/{entry.parts}",
        _MARK: entry.mark,
        **fence_properties(entry.fence),
    }


def parse_entry(properties: Mapping[str, str], body: bytes, stored_ms: int = 0) -> LedgerEntry | None:
    """Parse a message of the ledger. Return None for a message that is not an entry."""
    try:
        part, _, parts = properties[_PART].partition("/")
        state, fence = properties[_STATE], parse_fence(properties)
        query_id, batch_id, mark = properties[_QUERY], int(properties[_BATCH]), properties[_MARK]
        entry = LedgerEntry(query_id, batch_id, state, int(part), int(parts), mark, body, fence, stored_ms)
    except (KeyError, ValueError):
        return None
    return entry if state in (OPENED, COMMITTING, COMMITTED) else None

"""The entries of the ledger, and the state of a query that its entries amount to. Pure.

An entry is a message:

    tag and key   a hash of the query id, to find the query's entries
    properties    SR_QUERY, the query id; SR_BATCH, the batch id; SR_STATE, one of the two states; SR_PART, such as 1/3; SR_MARK
    body          "committing": a part of the handles and starting offsets, as `CommittingBody`; "committed": one byte

The sink writes "committing" before it commits the first half message of a batch. The entry has everything that is needed to
complete the commit: the handles of the half messages, and the end of each queue that they go to. A large entry is split into
parts with a common mark. The parts are written in order, so the entry counts once its last part exists. The sink writes
"committed" after it has committed the last half message.
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
from skyrocket.spark.sink.handles import Handles, PackedHandles, unpack_handles

COMMITTING: Final = "committing"
COMMITTED: Final = "committed"
PART_BYTES_MAX: Final = 1024 * 1024
_QUERY, _BATCH, _STATE, _PART, _MARK = "SR_QUERY", "SR_BATCH", "SR_STATE", "SR_PART", "SR_MARK"
_NO_BODY: Final = b"-"  # brokers refuse empty bodies


class LedgerError(SparkSourceError):
    """The ledger has an entry that cannot be read."""


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


def ledger_state(entries: Iterable[LedgerEntry], *, is_all: bool) -> LedgerState | None:
    """Return the state of one query from its entries, the newest first.

    `is_all` says that there are no older entries. Without it, the result may be None: older entries must be read, too.
    """
    parts: dict[str, dict[int, LedgerEntry]] = {}
    for entry in entries:
        if entry.state == COMMITTED:
            return BatchCommitted(entry.batch_id)
        found = parts.setdefault(entry.mark, {})
        if entry.part == entry.parts or entry.parts in found:  # an entry without its last part does not count
            found[entry.part] = entry
            if len(found) == entry.parts:
                return _decode_committing([found[number] for number in range(1, entry.parts + 1)])
    if not is_all:
        return None
    if any(parts.values()):
        raise LedgerError("The ledger has lost a part of the entry that lists the rows of an unfinished commit.")
    return NoBatch()


def _decode_committing(parts: list[LedgerEntry]) -> BatchCommitting:
    try:
        body = msgspec.msgpack.decode(zlib.decompress(b"".join(part.body for part in parts)), type=CommittingBody)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise LedgerError(f"An entry of the ledger cannot be decoded: {error}.") from error
    starts = {Queue(topic, broker, queue_id): offset for topic, broker, queue_id, offset in body.starts}
    return BatchCommitting(parts[0].batch_id, starts, [unpack_handles(packed) for packed in body.handles])


# --- entries


def committing_entries(query_id: str, begun: BatchCommitting, mark: str) -> list[LedgerEntry]:
    """Return the parts of a "committing" entry, to be written in this order."""
    starts = [(*queue, offset) for queue, offset in begun.starts.items()]
    body = zlib.compress(msgspec.msgpack.encode(CommittingBody(starts, [each.pack() for each in begun.handles])), 1)
    pieces = [body[at : at + PART_BYTES_MAX] for at in range(0, len(body), PART_BYTES_MAX)]
    return [
        LedgerEntry(query_id, begun.batch_id, COMMITTING, number, len(pieces), mark, piece)
        for number, piece in enumerate(pieces, start=1)
    ]


def committed_entry(query_id: str, batch_id: int) -> LedgerEntry:
    return LedgerEntry(query_id, batch_id, COMMITTED, 1, 1, "-", _NO_BODY)


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
    }


def parse_entry(properties: Mapping[str, str], body: bytes) -> LedgerEntry | None:
    """Parse a message of the ledger. Return None for a message that is not an entry."""
    try:
        part, _, parts = properties[_PART].partition("/")
        state = properties[_STATE]
        entry = LedgerEntry(properties[_QUERY], int(properties[_BATCH]), state, int(part), int(parts), properties[_MARK], body)
    except (KeyError, ValueError):
        return None
    return entry if state in (COMMITTING, COMMITTED) else None

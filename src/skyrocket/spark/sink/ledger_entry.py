"""The ledger's entries, and what they say about a query together. Pure.

An entry is a message:

    tag and key   a hash of the query id, by which a query's entries are found
    properties    SR_QUERY, the query id; SR_BATCH, the batch id; SR_STATE, one of the two states; SR_PART, such as 1/3; SR_MARK
    body          of "committing": a part of the handles and starting offsets, as `CommittingBody`; of "committed": one byte

"committing" is written before the first half message of a batch is committed, with all that is needed to finish that: the handles
of its half messages, and the end of each queue that they go to. It has as many parts as its size asks for, each with the same
mark; it counts when the last one is there, since they are written one after the other. "committed" is written after the last.
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
from skyrocket.spark.sink.handles import Handles, PackedHandles, unpacked

COMMITTING: Final = "committing"
COMMITTED: Final = "committed"
PART_BYTES_MAX: Final = 1024 * 1024
_QUERY, _BATCH, _STATE, _PART, _MARK = "SR_QUERY", "SR_BATCH", "SR_STATE", "SR_PART", "SR_MARK"
_NOTHING: Final = b"-"  # brokers refuse empty bodies


class LedgerError(SparkSourceError):
    """What the ledger has to say cannot be read."""


class CommittingBody(msgspec.Struct, frozen=True, array_like=True):
    starts: list[tuple[str, str, int, int]]  # topic, broker, queue id, offset
    handles: list[PackedHandles]


class Entry(NamedTuple):
    """One message of the ledger."""

    query_id: str
    batch_id: int
    state: str
    part: int  # from 1 on
    parts: int
    mark: str
    body: bytes


# --- what a query's entries say


@dataclass(frozen=True, slots=True)
class Nothing:
    """The query has committed no batch, or it was too long ago for the ledger."""


@dataclass(frozen=True, slots=True)
class Committed:
    batch_id: int


@dataclass(frozen=True, slots=True)
class Committing:
    """It was begun, and not finished as far as the ledger knows."""

    batch_id: int
    starts: Mapping[Queue, int]
    handles: Sequence[Handles]


Standing = Nothing | Committed | Committing


def standing(entries: Iterable[Entry], *, is_all: bool) -> Standing | None:
    """Of one query, the newest entry first. None: what was read so far does not tell, read on; never so when that `is_all`."""
    parts: dict[str, dict[int, Entry]] = {}
    for entry in entries:
        if entry.state == COMMITTED:
            return Committed(entry.batch_id)
        found = parts.setdefault(entry.mark, {})
        if entry.part == entry.parts or entry.parts in found:  # without its last part it never counted
            found[entry.part] = entry
            if len(found) == entry.parts:
                return _committing([found[number] for number in range(1, entry.parts + 1)])
    if not is_all:
        return None
    if any(parts.values()):
        raise LedgerError("The ledger has lost a part of an entry that says which rows were about to be committed.")
    return Nothing()


def _committing(parts: list[Entry]) -> Committing:
    try:
        body = msgspec.msgpack.decode(zlib.decompress(b"".join(part.body for part in parts)), type=CommittingBody)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise LedgerError(f"An entry of the ledger cannot be read: {error}.") from error
    starts = {Queue(topic, broker, queue_id): offset for topic, broker, queue_id, offset in body.starts}
    return Committing(parts[0].batch_id, starts, [unpacked(packed) for packed in body.handles])


# --- entries


def committing_entries(query_id: str, standing: Committing, mark: str) -> list[Entry]:
    starts = [(*queue, offset) for queue, offset in standing.starts.items()]
    body = zlib.compress(msgspec.msgpack.encode(CommittingBody(starts, [each.packed() for each in standing.handles])), 1)
    pieces = [body[at : at + PART_BYTES_MAX] for at in range(0, len(body), PART_BYTES_MAX)]
    return [
        Entry(query_id, standing.batch_id, COMMITTING, number, len(pieces), mark, piece)
        for number, piece in enumerate(pieces, start=1)
    ]


def committed_entry(query_id: str, batch_id: int) -> Entry:
    return Entry(query_id, batch_id, COMMITTED, 1, 1, "-", _NOTHING)


def ledger_tag(query_id: str) -> str:
    return blake2b(query_id.encode(), digest_size=12).hexdigest()


def entry_properties(entry: Entry, message_id: str) -> dict[str, str]:
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


def parsed_entry(properties: Mapping[str, str], body: bytes) -> Entry | None:
    """None for a message that is no entry."""
    try:
        part, _, parts = properties[_PART].partition("/")
        state = properties[_STATE]
        entry = Entry(properties[_QUERY], int(properties[_BATCH]), state, int(part), int(parts), properties[_MARK], body)
    except (KeyError, ValueError):
        return None
    return entry if state in (COMMITTING, COMMITTED) else None

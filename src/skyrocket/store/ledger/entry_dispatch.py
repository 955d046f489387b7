"""What queues and index need of the entries that a leader has sent.

A follower checks every record, as it would in recovery, and reads its properties. Nearly all messages of a producer have the
same properties except for the unique key, so the compiled twin asks once for what they mean: by their shape, which is their text
with a mark in place of that key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.properties import KEYS, TAGS, decode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryError, EntryHeader, check_entry_bytes, unpack_header
from skyrocket.store.message import DispatchFields, dispatch_request_of, index_keys

SHAPES_MAX: Final = 1024
SHAPE_BYTES_MAX: Final = 1024
_MARK: Final = MARK.decode()


class ShapeFacts(NamedTuple):
    """What properties of one shape mean to queue and index."""

    tags_code: int
    keys: tuple[str, ...]  # without the key that the mark stands for
    marks_key: bool  # that key comes first


class ShapeCache:
    def __init__(self) -> None:
        self.known: dict[bytes, ShapeFacts] = {}  # hot paths look here before they call `look_up`

    def look_up(self, shape: bytes) -> ShapeFacts | None:
        """Return what properties mean; None when the key also stands for something else."""
        properties = decode_properties(shape)
        keys = index_keys(properties)
        marks_key = keys[:1] == (_MARK,)
        rest = keys[1:] if marks_key else keys
        if any(_MARK in key for key in rest) or _MARK in properties.get(TAGS, ""):
            return None
        facts = ShapeFacts(tags_code(properties.get(TAGS)), rest, marks_key)
        if KEYS not in properties and len(shape) <= SHAPE_BYTES_MAX:  # keys differ from message to message
            if len(self.known) >= SHAPES_MAX:
                self.known.clear()
            self.known[shape] = facts
        return facts


def decode_entry(entry: bytes | memoryview) -> tuple[EntryHeader, Record]:
    """Decode header and record of an entry. Raise EntryError when it is none."""
    header = unpack_header(entry)
    if header is None or header.size != len(entry):
        raise EntryError(f"{len(entry)} bytes are no entry of a ledger.")
    try:
        return header, decode_record(memoryview(entry)[HEADER_BYTES:])
    except RecordError as error:
        raise EntryError(f"Entry {header.index} holds no message: {error}") from error


def dispatch_of(entry: bytes | memoryview, delays_ms: tuple[int, ...]) -> DispatchFields:
    """Return what queues and index need of an entry. Raise EntryError or TooLargeError when it does not belong in a log."""
    header, record = decode_entry(entry)
    check_entry_bytes(header.size)
    if record.physical_offset != header.record_offset:
        raise EntryError(
            f"Entry {header.index} holds a message that says it lies at {record.physical_offset}, not {header.record_offset}."
        )
    return dispatch_request_of(record, header.size - HEADER_BYTES, delays_ms)


def _dispatches_of(
    entries: Sequence[bytes | memoryview],
    delays_ms: tuple[int, ...],
    shapes: ShapeCache,  # noqa: ARG001 — the twin's
) -> list[DispatchFields]:
    """Return what queues and index need of entries. Raise an error for the first one that does not belong in a log."""
    return [dispatch_of(entry, delays_ms) for entry in entries]


dispatches_of = twin("ledger_entries", _dispatches_of)

"""What queues and index need of the entries that a leader has sent. A follower checks every record, as it would in recovery."""

from __future__ import annotations

from collections.abc import Sequence

from skyrocket.compiled import twin
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryError, EntryHeader, check_entry_bytes, unpack_header
from skyrocket.store.log.property_shapes import ShapeCache
from skyrocket.store.message import DispatchFields, dispatch_request_of


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

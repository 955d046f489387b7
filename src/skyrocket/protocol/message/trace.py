"""RocketMQ's message trace: what clients write to the trace topic about each send and each consumption. Pure text ↔ values.

A trace message has rows, each ended by \\x02; the fields of a row are separated by \\x01. The first field is the row's type:

    Pub             time region group topic id tags keys store-host body-bytes cost-ms message-type offset-id success
    SubBefore       time region group request-id id retry-times keys
    SubAfter        request-id id cost-ms success keys context-code time group
    EndTransaction  time region group topic id tags keys store-host message-type transaction-id state from-check
    Recall          time region group topic id success

The keys of the trace message are the ids and keys of the messages in it, so a trace is found with a query by key. Java writes
`null` for a text that is missing, and needs one where a row would end with an empty field.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Any, Final

import msgspec

from skyrocket.protocol.message.properties import KEY_SEPARATOR

FIELD_END: Final = "\x01"
ROW_END: Final = "\x02"
_MISSING: Final = "null"


class TraceType(StrEnum):
    """What a row of a trace is about."""

    PUB = "Pub"  # a message was sent
    SUB_BEFORE = "SubBefore"  # a consumer begins with a message
    SUB_AFTER = "SubAfter"  # a consumer has ended with it
    END_TRANSACTION = "EndTransaction"  # a producer has told the outcome of a transaction
    RECALL = "Recall"  # a timed message was recalled


class TracedKind(IntEnum):
    """The kind of a message in a trace, by the number that Java writes."""

    NORMAL = 0
    HALF = 1
    TRANSACTION_END = 2
    DELAYED = 3
    ORDERED = 4


class TraceRow(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """One row. Each type uses the fields of its line in the table of this module; the others keep their defaults."""

    type: TraceType
    message_id: str
    time_ms: int = 0
    region_id: str = ""
    group: str = ""
    topic: str = ""
    tags: str = ""
    keys: str = ""  # separated by spaces
    store_host: str = ""
    body_bytes: int = 0
    cost_ms: int = 0
    kind: int = TracedKind.NORMAL
    offset_id: str = ""
    success: bool = True
    request_id: str = ""  # the same in SubBefore and SubAfter
    retry_times: int = 0
    context_code: int = 0  # how a consumption ended: 0 success, 1 too late, 2 exception, 3 null, 4 failed
    transaction_id: str = ""
    transaction_state: str = ""
    from_check: bool = False


_SENT: Final = ("time_ms", "region_id", "group", "topic", "message_id")
_LABELS: Final = ("tags", "keys", "store_host")
_COLUMNS: Final[dict[TraceType, tuple[str, ...]]] = {
    TraceType.PUB: (*_SENT, *_LABELS, "body_bytes", "cost_ms", "kind", "offset_id", "success"),
    TraceType.SUB_BEFORE: ("time_ms", "region_id", "group", "request_id", "message_id", "retry_times", "keys"),
    TraceType.SUB_AFTER: ("request_id", "message_id", "cost_ms", "success", "keys", "context_code", "time_ms", "group"),
    TraceType.END_TRANSACTION: (*_SENT, *_LABELS, "kind", "transaction_id", "transaction_state", "from_check"),
    TraceType.RECALL: (*_SENT, "success"),
}
_BOOLEANS: Final = frozenset({"success", "from_check"})
_NUMBERS: Final = frozenset({"time_ms", "body_bytes", "cost_ms", "kind", "retry_times", "context_code"})
_OLD_PUB_FIELDS: Final = 12  # of clients before 4.5: without the offset id


def encode_trace(rows: Iterable[TraceRow]) -> str:
    """Encode rows as the body of a trace message."""
    return "".join(_encode_row(row) for row in rows)


def _encode_row(row: TraceRow) -> str:
    values = [str(row.type), *(_to_text(name, getattr(row, name)) for name in _COLUMNS[row.type])]
    return FIELD_END.join(values) + ROW_END


def _to_text(name: str, value: Any) -> str:
    if name in _BOOLEANS:
        return "true" if value else "false"
    return str(int(value)) if name in _NUMBERS else value or _MISSING


def decode_trace(text: str) -> list[TraceRow]:
    """Decode the body of a trace message. Rows of other types, and malformed ones, are left out."""
    found = (_decode_row(row.split(FIELD_END)) for row in text.split(ROW_END) if row)
    return [row for row in found if row is not None]


def _decode_row(values: list[str]) -> TraceRow | None:
    try:
        kind = TraceType(values[0])
        columns = _COLUMNS[kind]
        if kind is TraceType.PUB and len(values) - 1 == _OLD_PUB_FIELDS:
            columns = tuple(name for name in columns if name != "offset_id")
        fields = {name: _from_text(name, value) for name, value in zip(columns, values[1:], strict=False)}
        return TraceRow(type=kind, **fields) if fields.get("message_id") else None
    except ValueError:
        return None


def _from_text(name: str, value: str) -> Any:
    if name in _BOOLEANS:
        return value == "true"
    if name in _NUMBERS:
        return int(value)
    return "" if value == _MISSING else value


def keys_of(row: TraceRow) -> set[str]:
    """Return the keys by which a trace message with this row is found."""
    return {row.message_id, *(key for key in row.keys.split(KEY_SEPARATOR) if key)}

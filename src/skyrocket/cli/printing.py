"""What commands print: aligned columns for people, one JSON document for programs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from skyrocket.client import Received

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a command: the same thing twice."""

    document: Any  # for --json
    text: str


def as_json(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def table(head: Sequence[str], rows: Iterable[Iterable[object]], empty: str = "Nothing is there.") -> str:
    """Columns as wide as they need to be; those of numbers are aligned to the right."""
    lines = [list(row) for row in rows]
    if not lines:
        return empty
    columns = list(zip(*lines, strict=True))
    is_number = [all(isinstance(cell, int | float) for cell in column) for column in columns]
    texts = [list(head), *([str(cell) for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]

    def laid_out(line: Sequence[str]) -> str:
        cells = zip(line, widths, is_number, strict=True)
        return _GAP.join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells).rstrip()

    return "\n".join(map(laid_out, texts))


def moment(time_ms: int) -> str:
    """In this machine's time zone; a dash for none."""
    if time_ms <= 0:
        return "-"
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def message_document(message: Received) -> dict[str, Any]:
    """For programs. The body is text where it is UTF-8, else bodyBase64 has it."""
    shown: dict[str, Any] = {
        "topic": message.topic,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "offsetId": message.offset_id,
        "tags": message.tag,
        "keys": message.keys,
        "properties": message.properties,
        "bornTimestamp": message.born_ms,
        "bornHost": message.born_host,
        "storeTimestamp": message.stored_ms,
        "reconsumeTimes": message.reconsume_times,
        "bodyLength": len(message.body),
    }
    try:
        shown["body"] = message.body.decode()
    except UnicodeDecodeError:
        shown["bodyBase64"] = base64.b64encode(message.body).decode()
    return shown


def message_line(message: Received) -> str:
    parts = [moment(message.stored_ms), f"{message.topic}/{message.broker_name}/{message.queue_id}@{message.queue_offset}"]
    parts.append(message.message_id)
    if message.tag:
        parts.append(f"tag={message.tag}")
    if message.keys:
        parts.append(f"keys={','.join(message.keys)}")
    parts.append(body_text(message.body))
    return _GAP.join(parts)


def body_text(body: bytes) -> str:
    """On one line, whatever is in it: control characters would do things to a terminal."""
    text = str(body, "utf-8", "backslashreplace")
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def message_text(message: Received) -> str:
    """One message with everything that it carries."""
    rows = [
        ("topic", message.topic),
        ("queue", f"{message.queue_id} at {message.broker_name}, offset {message.queue_offset}"),
        ("id", message.message_id),
        ("offset id", message.offset_id),
        ("tag", message.tag or "-"),
        ("keys", ", ".join(message.keys) or "-"),
        ("born", f"{moment(message.born_ms)} at {message.born_host}"),
        ("stored", f"{moment(message.stored_ms)} at {message.store_host}"),
        ("delivered before", f"{message.reconsume_times} times"),
        *((f"property {name}", body_text(value.encode())) for name, value in message.properties.items()),
        ("body", body_text(message.body)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}{_GAP}{value}" for name, value in rows)

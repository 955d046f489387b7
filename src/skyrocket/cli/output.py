"""Format what commands print: aligned columns for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer

from skyrocket.client import Received
from skyrocket.client.helpers.message_document import message_document

_GAP = "  "


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command, as a JSON document and as text."""

    document: Any  # for --json
    text: str
    exit_code: int = 0  # not 0: the command worked, and its answer is negative


def to_json(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def format_table(head: Sequence[str], rows: Iterable[Iterable[object]], empty: str = "No rows.") -> str:
    """Format rows as aligned columns, numbers to the right. Return `empty` when there are no rows."""
    lines = [list(row) for row in rows]
    if not lines:
        return empty
    columns = list(zip(*lines, strict=True))
    is_number = [all(isinstance(cell, int | float) for cell in column) for column in columns]
    texts = [list(head), *([str(cell) for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]

    def align(line: Sequence[str]) -> str:
        cells = zip(line, widths, is_number, strict=True)
        return _GAP.join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells).rstrip()

    return "\n".join(map(align, texts))


def format_time(time_ms: int) -> str:
    """Format milliseconds since 1970 in this machine's time zone. Return a dash when there is no time."""
    if time_ms <= 0:
        return "-"
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def message_line(message: Received) -> str:
    """Format a message as one line."""
    parts = [format_time(message.stored_ms), f"{message.topic}/{message.broker_name}/{message.queue_id}@{message.queue_offset}"]
    parts.append(message.message_id)
    if message.tag:
        parts.append(f"tag={message.tag}")
    if message.keys:
        parts.append(f"keys={','.join(message.keys)}")
    parts.append(body_text(message.body))
    return _GAP.join(parts)


def print_message(message: Received, *, as_json: bool, body_only: bool = False) -> None:
    """Print a message at once: as one line, as one JSON document, or its body alone, byte for byte."""
    if body_only:
        typer.echo(message.body)
    else:
        typer.echo(to_json(message_document(message)) if as_json else message_line(message))


def body_text(body: bytes) -> str:
    """Return the body as one printable line. Control characters are escaped, because a terminal would act on them."""
    text = str(body, "utf-8", "backslashreplace")
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def message_text(message: Received) -> str:
    """Format all fields and properties of a message, one per line."""
    rows = [
        ("topic", message.topic),
        ("queue", f"{message.queue_id} at {message.broker_name}, offset {message.queue_offset}"),
        ("id", message.message_id),
        ("offset id", message.offset_id),
        ("tag", message.tag or "-"),
        ("keys", ", ".join(message.keys) or "-"),
        ("born", f"{format_time(message.born_ms)} at {message.born_host}"),
        ("stored", f"{format_time(message.stored_ms)} at {message.store_host}"),
        ("delivered before", f"{message.reconsume_times} times"),
        *((f"property {name}", body_text(value.encode())) for name, value in message.properties.items()),
        ("body", body_text(message.body)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}{_GAP}{value}" for name, value in rows)

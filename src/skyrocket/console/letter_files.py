"""Dead letters as files to download: JSON lines, or CSV for a spreadsheet. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from skyrocket.client import Received
from skyrocket.client.helpers.message_document import message_document
from skyrocket.console.body_views import show_text
from skyrocket.report.texts import format_moment

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes such a cell for a formula, and runs it
_HEAD: Final = ("stored", "topic", "broker", "queue", "offset", "id", "tag", "keys", "retries", "body")


class LetterFormat(NamedTuple):
    content_type: str
    encode: Callable[[Iterable[Received]], bytes]


def to_json_lines(letters: Iterable[Received]) -> bytes:
    return b"".join(msgspec.json.encode(message_document(letter)) + b"\n" for letter in letters)


def to_csv(letters: Iterable[Received]) -> bytes:
    """Return a table. A cell that a spreadsheet would run as a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_HEAD)
    for one in letters:
        cells = (
            *(format_moment(one.stored_ms), one.topic, one.broker_name, one.queue_id, one.queue_offset, one.message_id),
            *(one.tag, " ".join(one.keys), one.reconsume_times, show_text(one.body)),
        )
        writer.writerow([f"'{cell}" if str(cell).startswith(_FORMULA_STARTS) else cell for cell in cells])
    return text.getvalue().encode()


FORMATS: Final = {
    "jsonl": LetterFormat("application/x-ndjson", to_json_lines),
    "csv": LetterFormat("text/csv; charset=utf-8", to_csv),
}

"""Dead letters as files."""

from __future__ import annotations

import csv
import io
import json

from skyrocket.client import Received
from skyrocket.console.letter_files import to_csv, to_json_lines
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record


def letter(body: bytes, **properties: str) -> Received:
    record = Record(
        topic="%DLQ%coupons",
        body=body,
        queue_id=1,
        queue_offset=7,
        physical_offset=4096,
        store_timestamp=1_800_000_000_000,
        properties=encode_properties(properties),
        reconsume_times=16,
    )
    return Received(record, broker_name="broker-a")


def test_json_lines_have_text_or_base64():
    first, second = map(json.loads, to_json_lines([letter(b"text", KEYS="k"), letter(b"\xff")]).splitlines())
    assert (first["body"], first["keys"], first["reconsumeTimes"]) == ("text", ["k"], 16)
    assert second["bodyBase64"] == "/w=="


def test_a_spreadsheet_runs_nothing():
    rows = list(
        csv.reader(
            io.StringIO(to_csv([letter(b"=cmd|' /C calc'!A0", TAGS="+1", KEYS="@SUM"), letter(b'say "hi"\nbye')]).decode())
        )
    )
    assert rows[0][-1] == "body"
    assert rows[1][6:] == ["'+1", "'@SUM", "16", "'=cmd|' /C calc'!A0"]
    assert rows[2][-1] == 'say "hi"\nbye'
    assert rows[1][0] == "2027-01-15 08:00:00 UTC"

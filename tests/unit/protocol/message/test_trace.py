"""Rows of RocketMQ's message trace: the text that Java's client writes and reads."""

from __future__ import annotations

import pytest

from skyrocket.protocol.message.trace import TracedKind, TraceRow, TraceType, decode_trace, encode_trace, keys_of

PUB = TraceRow(
    type=TraceType.PUB,
    message_id="7F01",
    time_ms=1_700_000_000_000,
    region_id="DefaultRegion",
    group="signup",
    topic="orders",
    keys="o-7 u-42",
    store_host="127.0.0.1:10911",
    body_bytes=5,
    cost_ms=3,
    kind=TracedKind.DELAYED,
    offset_id="7F00",
)
BEFORE = TraceRow(
    type=TraceType.SUB_BEFORE, message_id="7F01", time_ms=5, region_id="r", group="coupons", request_id="AB", retry_times=2
)
AFTER = TraceRow(
    type=TraceType.SUB_AFTER,
    message_id="7F01",
    time_ms=9,
    group="coupons",
    request_id="AB",
    cost_ms=4,
    success=False,
    keys="o-7",
    context_code=2,
)
END = TraceRow(
    type=TraceType.END_TRANSACTION,
    message_id="7F01",
    time_ms=9,
    region_id="r",
    group="pay",
    topic="orders",
    tags="web",
    store_host="h:1",
    kind=TracedKind.TRANSACTION_END,
    transaction_id="7F01",
    transaction_state="COMMIT_MESSAGE",
    from_check=True,
)
RECALL = TraceRow(type=TraceType.RECALL, message_id="7F01", time_ms=9, region_id="r", group="pay", topic="orders")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (PUB, "Pub 1700000000000 DefaultRegion signup orders 7F01 null o-7+u-42 127.0.0.1:10911 5 3 3 7F00 true"),
        (BEFORE, "SubBefore 5 r coupons AB 7F01 2 null"),
        (AFTER, "SubAfter AB 7F01 4 false o-7 2 9 coupons"),
        (END, "EndTransaction 9 r pay orders 7F01 web null h:1 2 7F01 COMMIT_MESSAGE true"),
        (RECALL, "Recall 9 r pay orders 7F01 true"),
    ],
)
def test_rows_have_javas_fields_in_javas_order(row: TraceRow, text: str):
    expected = text.replace(" ", "\x01").replace("+", " ") + "\x02"
    assert encode_trace([row]) == expected
    assert decode_trace(expected) == [row]


def test_rows_share_a_message():
    assert decode_trace(encode_trace([PUB, BEFORE, AFTER])) == [PUB, BEFORE, AFTER]


def test_a_row_of_an_older_client_has_no_offset_id_and_one_of_a_newer_has_more():
    fields = encode_trace([PUB]).rstrip("\x02").split("\x01")
    old = "\x01".join(fields[:12] + fields[13:])
    (row,) = decode_trace(old)
    assert (row.offset_id, row.success) == ("", True)
    assert decode_trace("\x01".join([*fields, "10.0.0.1"])) == [PUB]


def test_the_end_of_a_consumption_may_lack_time_and_group():
    (row,) = decode_trace("SubAfter\x01AB\x017F01\x014\x01true\x01null\x02")
    assert (row.time_ms, row.group, row.success) == (0, "", True)


@pytest.mark.parametrize(
    "text", ["", "\x02\x02", "Unknown\x011", "Pub", "Pub\x01not a number\x01r\x01g\x01t\x017F01", "\x01\x01"]
)
def test_rows_that_make_no_sense_are_left_out(text: str):
    assert decode_trace(text) == []


def test_a_trace_is_found_by_the_id_and_the_keys_of_its_message():
    assert keys_of(PUB) == {"7F01", "o-7", "u-42"}
    assert keys_of(BEFORE) == {"7F01"}

"""When timed messages are due, in which slot they wait, and what a slot gives out."""

from __future__ import annotations

import pytest

from skyrocket.broker.delay.timer_message import Timing
from skyrocket.broker.delay.timer_slot import TimerSlot, position_of
from skyrocket.broker.delay.timers import parse_number, recall_handle, rolled_to_ms, slot_start_ms
from skyrocket.protocol.message.recall_handle import RecallHandle, decode_recall_handle

WINDOW = 2 * 24 * 3600
HOUR = 3600


@pytest.mark.parametrize(("due", "start"), [(1_000, 0), (1_001, 1_000), (1_999, 1_000), (2_000, 1_000), (2_001, 2_000)])
def test_a_slot_has_what_is_due_after_its_start_until_its_end(due: int, start: int):
    assert slot_start_ms(due, 1_000) == start


@pytest.mark.parametrize(
    ("properties", "stored", "due"),
    [
        ({"TIMER_DELIVER_MS": "5300"}, 1, 5_300),
        ({"TIMER_DELAY_MS": "300"}, 5_100, 5_400),
        ({"TIMER_DELAY_SEC": "4"}, 1_500, 5_500),
        ({"TIMER_DELAY_SEC": "4", "TIMER_DELIVER_MS": "5100", "TIMER_ROLL_TIMES": "1"}, 1_500, 5_100),
        ({"TIMER_DELAY_SEC": "4", "TIMER_ROLL_TIMES": "1"}, 1_500, 6_000),  # nobody knows any more: when Apache's delivers it
        ({"TIMER_DELIVER_MS": "4000"}, 1, 5_001),  # whatever it says, it is in this slot
        ({"TIMER_DELAY_MS": "9000"}, 5_000, 6_000),
        ({}, 1, 6_000),
    ],
)
def test_it_is_due_when_it_was_asked_for_but_within_its_slot(properties: dict[str, str], stored: int, due: int):
    timing = Timing.of(properties | {"TIMER_OUT_MS": "5000", "REAL_TOPIC": "orders"}, 1_000)
    assert timing is not None
    assert timing.due_ms(stored) == due


@pytest.mark.parametrize(
    ("ahead_s", "rolled_s"),
    [
        (WINDOW - 1, None),
        (WINDOW, 24 * HOUR),  # just beyond: early, so that enough is left for the next time
        (WINDOW + 16 * HOUR - 1, 24 * HOUR),
        (WINDOW + 16 * HOUR, WINDOW),
        (3 * 24 * HOUR, WINDOW),
    ],
)
def test_what_lies_beyond_the_window_is_rolled_where_apache_rolls_it(ahead_s: int, rolled_s: int | None):
    now_ms = 1_700_000_000_000
    rolled_ms = rolled_to_ms(now_ms + ahead_s * 1000, now_ms + 777, WINDOW, 1_000)
    assert rolled_ms == (None if rolled_s is None else now_ms + rolled_s * 1000)


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("-5", -5), ("+7", 7), ("", None), ("x", None), ("1.5", None), (None, None), ("٣", None)]
)
def test_numbers_are_read_as_java_reads_them(text: str | None, value: int | None):
    assert parse_number(text) == value


def test_a_message_that_waits_has_a_handle():
    waiting = {"TIMER_OUT_MS": "5000", "REAL_TOPIC": "orders", "UNIQ_KEY": "KEY"}
    handle = recall_handle(waiting, "broker-a")
    assert handle is not None
    assert decode_recall_handle(handle) == RecallHandle("orders", "broker-a", 5_001, "KEY")
    for missing in waiting:
        assert recall_handle({name: waiting[name] for name in waiting if name != missing}, "broker-a") is None
    assert recall_handle(waiting | {"REAL_TOPIC": "%RETRY%group"}, "broker-a") is None


def test_a_slot_gives_out_what_is_due_in_order_and_no_more_than_is_wanted():
    slot = TimerSlot(5_000, 1_000, -1)
    for due, position in ((5_900, 0), (5_100, 52), (5_100, 104), (4_000, 156), (9_000, 208)):
        slot.add(due, position)
    assert slot.next_due_ms() == 4_000, "what came too late for its own slot keeps its time"
    assert slot.take(3_999, 10) == []
    assert [position_of(number) for number in slot.take(5_500, 2)] == [156, 52]
    assert slot.delivered_until_ms() == 5_099
    taken = slot.take(5_500, 10)
    slot.put_back(taken)
    assert [position_of(number) for number in slot.take(6_000, 10)] == [104, 0, 208]
    assert slot.delivered_until_ms() == 6_000
    assert not slot.is_over(5_999)
    assert slot.is_over(6_000)

"""Delay levels with a clock that only the test moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyrocket.broker.delay.levels import MESSAGES_PER_TURN, parse_level
from skyrocket.net.router import RefusedError
from skyrocket.protocol.bodies import DelayOffsetSerializeWrapper
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.system_names import SCHEDULE_TOPIC
from skyrocket.store.config import DELAY_LEVELS, delay_levels_ms
from skyrocket.store.config_files import DELAY_OFFSETS
from skyrocket.store.errors import StoreError
from tests.support.brokers.delays import BEGIN_MS, Delays
from tests.support.stores.store_messages import expire_oldest

LEVELS_MS = list(enumerate(delay_levels_ms(DELAY_LEVELS), 1))


# --- in time


@pytest.mark.parametrize(("level", "delay_ms"), LEVELS_MS)
def test_a_message_comes_when_its_level_says_and_not_a_millisecond_before(level: int, delay_ms: int):
    delays = Delays()
    delays.send(level, "a")
    assert delays.check() == BEGIN_MS + delay_ms
    delays.pass_ms(delay_ms - 1)
    assert delays.keys() == []
    assert delays.pass_ms(1) is None
    (message,) = delays.delivered()
    assert message.at_ms == BEGIN_MS + delay_ms


def test_all_eighteen_levels_at_once_come_in_the_order_of_their_delays():
    delays = Delays()
    for level, _ in reversed(LEVELS_MS):
        delays.send(level, f"level {level}")
    while (said := delays.check()) is not None:
        delays.now_ms = max(said, delays.now_ms)
    assert delays.keys() == [f"level {level}" for level, _ in LEVELS_MS]
    for message, (_, delay_ms) in zip(delays.delivered(), LEVELS_MS, strict=True):
        assert 0 <= message.at_ms - BEGIN_MS - delay_ms <= 20


def test_ten_thousand_messages_a_second_are_within_a_tenth_of_a_second():
    delays = Delays(levels="1s 2s")
    due: dict[str, int] = {}
    for tick in range(100):
        for i in range(10):
            key = f"{tick}-{i}"
            delays.send(1 + i % 2, key)
            due[key] = delays.now_ms + (1_000, 2_000)[i % 2]
        delays.now_ms += 1
    while (said := delays.check()) is not None:
        delays.now_ms = max(said, delays.now_ms + 1)
    late = [message.at_ms - due[message.key] for message in delays.delivered()]
    assert len(late) == 1_000
    assert min(late) >= 0
    assert max(late) <= 100


def test_messages_of_a_level_come_in_the_order_in_which_they_were_sent():
    delays = Delays()
    for i in range(100):
        delays.send(1, str(i))
        delays.now_ms += i % 3
    delays.pass_ms(1_000)
    delays.settle()
    assert delays.keys() == [str(i) for i in range(100)]


def test_a_message_to_a_level_that_slept_wakes_the_clockwork_and_the_next_ones_do_not():
    delays = Delays()
    assert delays.check() is None
    delays.send(2, "a")
    delays.check()
    delays.send(2, "b")
    delays.send(2, "c")
    assert delays.wakes == 1
    delays.send(1, "d")
    assert delays.wakes == 2


def test_a_turn_is_bounded_and_the_next_one_comes_at_once():
    delays = Delays()
    delays.send_all(1, map(str, range(MESSAGES_PER_TURN + 10)))
    assert delays.pass_ms(5_000) == delays.now_ms
    assert len(delays.keys()) == MESSAGES_PER_TURN
    assert delays.check() is None
    assert len(delays.keys()) == MESSAGES_PER_TURN + 10


def test_a_level_with_a_backlog_does_not_hold_up_the_others():
    delays = Delays()
    delays.send_all(1, (f"many {i}" for i in range(20 * MESSAGES_PER_TURN)))
    delays.send(2, "other", topic="others")
    delays.now_ms += 5_000
    for _ in range(20):
        delays.check()
    assert delays.keys("others") == ["other"]


def test_a_backlog_of_large_messages_is_delivered_in_turns():
    delays = Delays(segment_bytes=32 * 1024 * 1024)
    for i in range(5):
        record = Record(topic="orders", body=bytes(2_000_000))
        properties = {"DELAY": "1", "UNIQ_KEY": str(i)}
        stored = delays.schedule.delay(record, properties, 1)
        stored.properties = encode_properties(properties)
        delays.internal_writer.write([stored])
    delays.now_ms += 5_000
    assert delays.check() == delays.now_ms
    assert delays.keys() == ["0", "1", "2"]
    delays.settle()
    assert delays.keys() == ["0", "1", "2", "3", "4"]


# --- levels


def test_a_level_beyond_the_last_is_the_last():
    delays = Delays(levels="1s 5s")
    delays.send(19, "a")
    delays.pass_ms(4_999)
    assert delays.keys() == []
    delays.pass_ms(1)
    (message,) = delays.delivered()
    assert decode_properties(message.record.properties)["DELAY"] == "2"


@pytest.mark.parametrize("level", ["0", "-1", "-2147483648"])
def test_a_level_of_zero_or_less_is_no_delay(level: str):
    delays = Delays()
    delays.send(level, "a")
    (message,) = delays.delivered()
    assert decode_properties(message.record.properties)["DELAY"] == level


@pytest.mark.parametrize("text", ["", "abc", "1.5", " 1", "1_0", "２", "2147483648"])
def test_a_level_that_is_no_number_is_refused(text: str):
    with pytest.raises(RefusedError, match="whole number"):
        parse_level(text)


def test_levels_may_be_others():
    delays = Delays(levels="3s 1d")
    delays.send(1, "a")
    assert delays.check() == BEGIN_MS + 3_000
    delays.pass_ms(3_000)
    delays.send(2, "b")
    assert delays.check() == delays.now_ms + 86_400_000


def test_messages_of_levels_that_are_no_more_are_delivered():
    delays = Delays()
    delays.send(5, "a")
    delays.send(2, "b")
    delays.config = replace(delays.config, delay_levels="1s 2s 3s")
    delays.kill()
    delays.pass_ms(60_000)
    delays.settle()
    assert sorted(delays.keys()) == ["a", "b"]


def test_a_clock_that_is_set_back_does_not_deliver_early_nor_hold_for_long():
    delays = Delays()
    delays.send(1, "before")
    delays.check()
    delays.now_ms -= 3_600_000
    delays.send(1, "after")
    set_back_ms = delays.now_ms
    delays.check()
    assert delays.pass_ms(999) is not None
    assert delays.keys() == []
    delays.now_ms = set_back_ms + 1_000
    delays.settle()
    assert delays.keys() == ["before", "after"]


# --- what is delivered


def test_a_delivered_message_is_what_was_sent_but_for_its_place():
    delays = Delays()
    sent = {
        "body": b"\x00body",
        "flag": 7,
        "sys_flag": 0x18 | 0x1,
        "born_timestamp": 1_234,
        "born_host": bytes(range(20)),
        "store_host": bytes(range(8)),
        "reconsume_times": 3,
        "prepared_transaction_offset": 99,
    }
    properties = {"DELAY": "4", "UNIQ_KEY": "a", "TAGS": "red", "KEYS": "k1 k2", "own": "ü", "TIMER_DELAY_MS": "5"}
    stored = delays.schedule.delay(Record(topic="orders", queue_id=3, **sent), properties, 4)  # type: ignore[arg-type]
    assert (stored.topic, stored.queue_id) == (SCHEDULE_TOPIC, 3)
    stored.properties = encode_properties(properties)
    delays.internal_writer.write([stored])
    delays.pass_ms(30_000)
    (message,) = delays.delivered(queue_id=3)
    record = message.record
    assert {name: getattr(record, name) for name in sent} == {**sent, "prepared_transaction_offset": 0}
    assert decode_properties(record.properties) == {
        "DELAY": "4",
        "UNIQ_KEY": "a",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "own": "ü",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
    }


def test_a_delivered_message_is_found_by_its_tag_again():
    delays = Delays()
    record = Record(topic="orders", body=b"")
    properties = {"UNIQ_KEY": "a", "TAGS": "red"}
    stored = delays.schedule.delay(record, properties, 1)
    stored.properties = encode_properties(properties)
    delays.internal_writer.write([stored])
    delays.pass_ms(1_000)
    red, blue = 112785, 3027034  # Java's hashes of the words
    assert len(delays.store.reading.messages("orders", 0, 0, 10, wanted=frozenset({red})).records) == 1
    assert len(delays.store.reading.messages("orders", 0, 0, 10, wanted=frozenset({blue})).records) == 0


@pytest.mark.parametrize(
    "properties",
    [{}, {"REAL_TOPIC": "orders"}, {"REAL_TOPIC": "orders", "REAL_QID": "x"}, {"REAL_TOPIC": "../up", "REAL_QID": "0"}],
)
def test_a_message_that_does_not_say_where_it_goes_holds_up_nobody(properties: dict[str, str]):
    delays = Delays()
    stray = Record(topic=SCHEDULE_TOPIC, body=b"", properties=encode_properties({"DELAY": "1", **properties}))
    delays.internal_writer.write([stray])
    delays.send(1, "a")
    delays.pass_ms(1_000)
    assert delays.keys() == ["a"]
    assert delays.check() is None


# --- progress


def test_after_a_clean_stop_nothing_comes_twice():
    delays = Delays()
    delays.send_all(1, "abc")
    delays.pass_ms(1_000)
    delays.send(1, "d")
    delays.close()
    delays.open()
    delays.pass_ms(1_000)
    assert delays.keys() == ["a", "b", "c", "d"]


def test_a_kill_before_the_progress_is_saved_delivers_twice_rather_than_never():
    delays = Delays()
    delays.send_all(1, "ab")
    delays.save()
    delays.pass_ms(1_000)
    delays.kill()
    delays.settle()
    assert delays.keys() == ["a", "b", "a", "b"]


def test_saved_progress_is_never_ahead_of_what_is_on_disk():
    delays = Delays()
    delays.send(1, "a")
    delays.flush()
    delays.pass_ms(1_000)
    assert delays.progress.snapshot().offset_table == {1: 0}
    delays.flush()
    assert delays.progress.snapshot().offset_table == {1: 1}


def test_with_sync_flush_a_message_waits_and_comes_only_once_it_is_on_disk():
    delays = Delays(sync_flush=True)
    delays.send(1, "a")
    assert delays.pass_ms(1_000) is None
    delays.flush()
    delays.check()
    assert delays.keys() == []
    delays.flush()
    assert delays.keys() == ["a"]


def test_progress_outside_of_the_queue_is_put_right_at_the_start():
    delays = Delays()
    delays.send(1, "a")
    delays.files.save(DELAY_OFFSETS, DelayOffsetSerializeWrapper(offset_table={1: 700, 2: 9, 3: -1}))
    delays.kill()
    delays.send(1, "b")
    delays.send(2, "c")
    delays.send(3, "d")
    delays.pass_ms(10_000)
    delays.settle()
    assert sorted(delays.keys()) == ["b", "c", "d"]


def test_messages_whose_records_are_gone_from_the_log_are_passed_over():
    delays = Delays()
    delays.send_all(1, (f"{i:04}" for i in range(800)))
    gone_before = expire_oldest(delays.store)
    assert gone_before > 0
    delays.pass_ms(1_000)
    delays.settle()
    keys = delays.keys()
    assert keys == [f"{i:04}" for i in range(800 - len(keys), 800)]
    assert keys


def test_what_the_disk_refuses_is_delivered_when_it_takes_it_again():
    delays = Delays()
    delays.send(1, "a")
    delays.now_ms += 1_000
    delays.store.retention.too_full = "The disk is 95 % full."
    with pytest.raises(StoreError):
        delays.check()
    delays.store.retention.too_full = None
    delays.check()
    assert delays.keys() == ["a"]


def test_a_damaged_record_is_passed_over_and_nothing_behind_it_comes_early():
    delays = Delays()
    damaged = delays.send(1, "damaged")
    delays.now_ms += 10
    delays.send(1, "later")
    delays.flush()
    log = delays.disk.open(f"{delays.store.paths.commit_log}/{0:020}", writable=True)
    log.write(damaged.physical_offset, b"\xff")
    delays.now_ms = BEGIN_MS + 1_000
    delays.check()
    assert delays.keys() == []
    delays.pass_ms(10)
    assert delays.keys() == ["later"]


def test_the_figures_say_how_far_each_level_is():
    delays = Delays(levels="1s 5s")
    delays.send_all(1, "abc")
    delays.pass_ms(1_000)
    delays.send(2, "d")
    delays.check()
    assert delays.schedule.figures() == {"scheduleMessageOffset_1": "3,3", "scheduleMessageOffset_2": "0,1"}

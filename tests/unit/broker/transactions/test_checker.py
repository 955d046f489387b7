"""Rounds over a store: who is asked when, what is stored again, given up, noted, and told as progress."""

from __future__ import annotations

from random import Random

import pytest

from skyrocket.broker.transactions.checker import HALVES_PER_TURN
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CheckTransactionStateRequestHeader
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from skyrocket.store.message import AppendResult
from tests.support.transaction_parts import TOPIC, Producer, Transacting

COMMIT, ROLLBACK = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
ROUND_MS = 30_000


def names(asked: list[tuple[str, AppendResult]]) -> list[str]:
    return [name for name, _ in asked]


# --- questions


def test_a_producer_is_asked_in_the_first_round_after_the_timeout_and_then_in_each():
    broker = Transacting()
    broker.joins()
    broker.passes(ROUND_MS - 6_000)
    broker.half("one")
    broker.passes(6_000)
    assert broker.asked() == [], "it is just as old as the timeout"
    broker.passes(ROUND_MS - 1)
    assert broker.asked() == []
    broker.passes(1)
    assert names(broker.asked()) == ["one"]
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == ["one"]


def test_the_question_shows_the_message_and_where_its_copy_lies():
    broker = Transacting()
    broker.joins()
    half = broker.half("one", queue_id=3, TAGS="red")
    broker.passes(ROUND_MS)
    (command,) = broker.producer.told
    header = command.header(CheckTransactionStateRequestHeader)
    original, copy = broker.records(HALF_TOPIC)
    assert command.code == RequestCode.CHECK_TRANSACTION_STATE
    assert (header.topic, header.msg_id, header.transaction_id) == (HALF_TOPIC, "one", "one")
    assert header.rpc_broker_name == "broker-a"
    assert (header.tran_state_table_offset, header.commit_log_offset) == (copy.queue_offset, copy.physical_offset)
    assert header.offset_msg_id == f"{copy.store_host.hex().upper()}{copy.physical_offset:016X}"
    shown = decode_record(command.body)
    assert (shown.topic, shown.queue_id, shown.body, shown.flag) == (TOPIC, 3, b"one", 7)
    assert (shown.queue_offset, shown.physical_offset) == (copy.queue_offset, copy.physical_offset)
    assert shown.store_timestamp == original.store_timestamp
    assert half.queue_offset != copy.queue_offset
    assert decode_properties(copy.properties) == decode_properties(original.properties) | {"TRANSACTION_CHECK_TIMES": "1"}
    assert (copy.flag, copy.born_timestamp, copy.born_host) == (original.flag, original.born_timestamp, original.born_host)


@pytest.mark.parametrize(("outcome", "seen"), [(COMMIT, ["one"]), (ROLLBACK, [])])
def test_the_answer_to_a_question_ends_the_transaction(outcome: int, seen: list[str]):
    broker = Transacting()
    broker.joins()
    broker.half("one")
    broker.passes(ROUND_MS)
    ((_, copy),) = broker.asked()
    broker.end(copy, outcome, from_transaction_check=True)
    broker.passes(3 * ROUND_MS)
    assert broker.asked() == []
    assert broker.delivered() == seen


def test_what_has_ended_is_not_asked_about():
    broker = Transacting()
    broker.joins()
    broker.end(broker.half("committed"), COMMIT)
    broker.half("open")
    broker.end(broker.half("rolled back"), ROLLBACK)
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == ["open"]
    assert broker.noted() == ["0,2,"]


def test_an_end_that_is_not_noted_yet_counts():
    broker = Transacting(transaction_op_interval_ms=10**9)
    broker.joins()
    half = broker.half("one")
    broker.passes(ROUND_MS - 1)
    broker.end(half, COMMIT)
    broker.passes(ROUND_MS)
    assert broker.asked() == []


def test_producers_of_a_group_take_turns_and_those_who_do_not_read_are_left_out():
    broker = Transacting()
    producers = [broker.joins(producer=Producer(port)) for port in (1, 2, 3)]
    producers[1].is_full = True
    for number in range(6):
        broker.half(f"m{number}")
    broker.passes(ROUND_MS)
    counts = [len(producer.told) for producer in producers]
    assert counts[1] == 0
    assert sum(counts) == 6
    assert min(counts[0], counts[2]) >= 2


def test_a_group_is_asked_about_its_own():
    broker = Transacting()
    mine, other = broker.joins("mine"), broker.joins("other", Producer(2))
    broker.half("my message", group="mine")
    broker.half("other message", group="other")
    broker.passes(ROUND_MS)
    assert names(broker.asked(mine)) == ["my message"]
    assert names(broker.asked(other)) == ["other message"]


def test_a_producer_that_comes_later_is_asked_then():
    broker = Transacting()
    broker.half("one")
    broker.passes(2 * ROUND_MS)
    broker.joins()
    broker.passes(ROUND_MS)
    ((name, copy),) = broker.asked()
    assert name == "one"
    broker.end(copy, COMMIT, from_transaction_check=True)
    assert broker.delivered() == ["one"]


# --- immunity


def test_an_immune_message_is_not_asked_about_and_its_producer_ends_it_as_it_knows_it():
    broker = Transacting()
    broker.joins()
    half = broker.half("one", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    broker.passes(3 * ROUND_MS)
    assert broker.asked() == []
    assert len(broker.records(HALF_TOPIC)) == 4, "a copy in each round"
    assert decode_properties(broker.records(HALF_TOPIC)[-1].properties)["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    broker.end(half, COMMIT)
    broker.passes(5 * ROUND_MS)
    assert broker.asked() == []
    assert broker.delivered() == ["one"]


def test_an_immune_message_is_asked_about_afterwards_as_often_as_any():
    broker = Transacting(transaction_checks_max=2)
    broker.joins()
    broker.half("one", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    broker.passes(5 * ROUND_MS)
    assert names(broker.asked()) == ["one", "one"], "rounds in which it was immune do not count"
    broker.passes(ROUND_MS)
    assert broker.given_up() == ["one"]


# --- ends that come late


def test_a_late_end_counts_for_the_copy_that_was_asked_about():
    broker = Transacting()
    broker.joins()
    half = broker.half("one")
    broker.passes(ROUND_MS)
    ((_, copy),) = broker.asked()
    broker.end(half, COMMIT)
    assert broker.delivered() == ["one"]
    broker.end(copy, COMMIT, from_transaction_check=True)
    broker.passes(3 * ROUND_MS)
    assert broker.delivered() == ["one"], "one message, however often it is committed"
    assert broker.asked() == []


def test_a_late_rollback_counts_against_what_is_said_afterwards():
    broker = Transacting()
    broker.joins()
    half = broker.half("one")
    broker.passes(ROUND_MS)
    ((_, copy),) = broker.asked()
    broker.end(half, ROLLBACK)
    broker.end(copy, COMMIT, from_transaction_check=True)
    assert broker.delivered() == []


# --- giving up


def test_a_message_is_given_up_after_the_last_question_was_not_answered():
    broker = Transacting(transaction_checks_max=3)
    broker.joins()
    broker.half("one", TAGS="red")
    broker.passes(3 * ROUND_MS)
    assert names(broker.asked()) == ["one"] * 3
    assert broker.given_up() == [], "the last question may still be answered"
    broker.passes(ROUND_MS)
    assert broker.asked() == []
    (record,) = broker.records(CHECK_MAX_TIME_TOPIC)
    assert (record.body, record.flag, record.queue_id, record.sys_flag) == (b"one", 7, 0, 0)
    properties = decode_properties(record.properties)
    assert (properties["REAL_TOPIC"], properties["TRANSACTION_CHECK_TIMES"], properties["TAGS"]) == (TOPIC, "3", "red")
    assert CHECK_MAX_TIME_TOPIC in broker.topics
    broker.passes(3 * ROUND_MS)
    assert broker.given_up() == ["one"]
    assert broker.delivered() == []


def test_an_administrator_has_a_message_asked_about_again():
    broker = Transacting(transaction_checks_max=1)
    broker.joins()
    broker.half("one")
    broker.passes(2 * ROUND_MS)
    (record,) = broker.records(CHECK_MAX_TIME_TOPIC)
    broker.asked()
    fields = {"msgId": encode_offset_id(record.store_host, record.physical_offset), "topic": TOPIC}
    peer = Producer()
    broker.router.handle(peer.connection, [Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields=fields)])
    assert peer.sent[0].code == ResponseCode.SUCCESS
    broker.passes(ROUND_MS)
    ((_, copy),) = broker.asked()
    broker.end(copy, COMMIT, from_transaction_check=True)
    assert broker.delivered() == ["one"]


def test_only_half_messages_can_be_asked_about_again():
    broker = Transacting()
    half = broker.half("one")
    broker.end(half, COMMIT)
    (record,) = broker.records(TOPIC)
    peer = Producer()
    fields = {"msgId": encode_offset_id(record.store_host, record.physical_offset)}
    broker.router.handle(peer.connection, [Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields=fields)])
    assert peer.sent[0].code == ResponseCode.SYSTEM_ERROR
    assert len(broker.records(HALF_TOPIC)) == 1


def test_a_message_older_than_its_file_may_get_is_given_up():
    broker = Transacting(reserved_hours=1)
    broker.joins()
    broker.half("one", born_ms=broker.now_ms - 3_600_000)
    broker.passes(ROUND_MS)
    assert broker.asked() == []
    assert broker.given_up() == ["one"]


def test_a_message_without_room_for_one_more_property_is_given_up():
    broker = Transacting(segment_bytes=1 << 20)
    broker.joins()
    broker.half("one", note="x" * 32_500)
    length = len(broker.records(HALF_TOPIC)[0].properties)
    broker.half("two", note="x" * (32_500 + 32_767 - length))
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == ["one"]
    assert broker.given_up() == ["two"]


# --- progress


def test_progress_is_told_when_what_it_relies_on_is_on_disk():
    broker = Transacting()
    broker.joins()
    broker.end(broker.half("one"), COMMIT)
    broker.half("two")
    broker.passes(ROUND_MS + 5_000)
    assert broker.progress() == (-1, -1)
    broker.store.flush()
    broker.passes(500)
    assert broker.progress() == (2, 1)


def test_a_round_goes_on_where_the_last_one_ended_even_when_nobody_was_told():
    broker = Transacting()
    broker.joins()
    broker.half("one")
    broker.passes(2 * ROUND_MS)
    assert names(broker.asked()) == ["one", "one"], "once a round"
    assert len(broker.records(HALF_TOPIC)) == 3


def test_many_half_messages_take_several_turns():
    broker = Transacting()
    broker.joins()
    count = 3 * HALVES_PER_TURN + 5
    halves = [broker.half(f"m{number}") for number in range(count)]
    for half in halves[::3]:
        broker.end(half, COMMIT)
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == [f"m{number}" for number in range(count) if number % 3]
    broker.store.flush()
    broker.passes(500)
    assert broker.progress() == (count, 1)


def test_a_message_that_ends_during_the_round_is_passed():
    broker = Transacting()
    broker.joins()
    halves = [broker.half(f"m{number}") for number in range(2 * HALVES_PER_TURN)]
    broker.now_ms += ROUND_MS
    broker.checks.check(broker.now_ms)
    broker.end(halves[-1], COMMIT)
    broker.works()
    assert names(broker.asked()) == [f"m{number}" for number in range(2 * HALVES_PER_TURN - 1)]


def test_nobody_is_asked_before_the_copy_is_confirmed():
    broker = Transacting(sync_flush=True)
    broker.joins()
    broker.half("one")
    broker.store.flush()
    broker.now_ms += ROUND_MS
    broker.works()
    assert broker.asked() == [], "an answer would not find the copy"
    broker.store.flush()
    broker.passes(100, step_ms=10)
    ((_, copy),) = broker.asked()
    assert broker.end(copy, COMMIT, from_transaction_check=True) is not None
    broker.store.flush()
    assert broker.delivered() == ["one"]


def test_a_clock_that_is_set_back_does_not_stop_the_rounds():
    broker = Transacting()
    broker.joins()
    broker.passes(ROUND_MS)
    broker.now_ms -= 3_600_000
    broker.works()
    broker.half("one")
    broker.passes(2 * ROUND_MS)
    assert "one" in names(broker.asked())


# --- the next life


def test_a_killed_broker_asks_about_what_was_open():
    broker = Transacting()
    broker.half("open")
    broker.end(broker.half("committed"), COMMIT)
    broker.checks.write_ops(broker.now_ms)
    broker.half("open too")
    broker = broker.killed()
    broker.joins()
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == ["open", "open too"]


def test_an_end_whose_note_was_lost_is_asked_about_again_and_the_message_is_there():
    broker = Transacting()
    broker.end(broker.half("one"), COMMIT)
    broker = broker.killed()
    assert broker.delivered() == ["one"]
    broker.joins()
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == ["one"]


def test_a_closed_broker_has_noted_everything():
    broker = Transacting()
    broker.joins()
    broker.end(broker.half("one"), ROLLBACK)
    broker.checks.close(broker.now_ms)
    assert broker.noted() == ["0,"]
    assert broker.producer.told == []


def test_after_a_power_cut_no_copy_is_lost_that_progress_has_passed():
    for seed in range(30):
        broker = Transacting(sync_flush=True)
        broker.joins()
        broker.half("one")
        broker.store.flush()
        broker.now_ms += ROUND_MS
        broker.works()  # the copy is stored, and not flushed
        broker.passes(1_000)
        broker.saves()
        broker = broker.power_cut(Random(seed))
        broker.joins()
        for _ in range(3):
            broker.now_ms += ROUND_MS
            broker.works()
            broker.store.flush()
            broker.works()
        assert "one" in names(broker.asked()), f"seed {seed}"


def test_offsets_beyond_the_queues_are_brought_back():
    broker = Transacting()
    broker.half("one")
    broker.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 50)
    broker.offsets.commit(TRANSACTION_GROUP, OP_TOPIC, 0, 50)
    broker.saves()
    broker = broker.killed()
    broker.joins()
    expected = [broker.half(f"m{number}") and f"m{number}" for number in range(60)]
    broker.passes(ROUND_MS)
    assert names(broker.asked()) == expected, "what came since is not taken for done"
    broker.store.flush()
    broker.passes(500)
    assert broker.progress() == (61, 0)

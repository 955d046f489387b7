"""Check rounds over a store: which producers are checked when, what is copied or given up, and the published progress."""

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
from tests.support.brokers.transaction_parts import TOPIC, Producer, Transacting

COMMIT, ROLLBACK = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
ROUND_MS = 30_000


def names(checks: list[tuple[str, AppendResult]]) -> list[str]:
    return [name for name, _ in checks]


# --- checks


def test_a_producer_is_checked_in_each_round_after_the_timeout():
    broker = Transacting()
    broker.join()
    broker.pass_time(ROUND_MS - 6_000)
    broker.half("one")
    broker.pass_time(6_000)
    assert broker.take_checks() == [], "it is just as old as the timeout"
    broker.pass_time(ROUND_MS - 1)
    assert broker.take_checks() == []
    broker.pass_time(1)
    assert names(broker.take_checks()) == ["one"]
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == ["one"]


def test_a_check_contains_the_message_and_the_offsets_of_its_copy():
    broker = Transacting()
    broker.join()
    half = broker.half("one", queue_id=3, TAGS="red")
    broker.pass_time(ROUND_MS)
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
def test_the_answer_to_a_check_ends_the_transaction(outcome: int, seen: list[str]):
    broker = Transacting()
    broker.join()
    broker.half("one")
    broker.pass_time(ROUND_MS)
    ((_, copy),) = broker.take_checks()
    broker.end(copy, outcome, from_transaction_check=True)
    broker.pass_time(3 * ROUND_MS)
    assert broker.take_checks() == []
    assert broker.delivered() == seen


def test_ended_transactions_are_not_checked():
    broker = Transacting()
    broker.join()
    broker.end(broker.half("committed"), COMMIT)
    broker.half("open")
    broker.end(broker.half("rolled back"), ROLLBACK)
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == ["open"]
    assert broker.op_bodies() == ["0,2,"]


def test_an_end_that_waits_for_its_op_message_counts():
    broker = Transacting(transaction_op_interval_ms=10**9)
    broker.join()
    half = broker.half("one")
    broker.pass_time(ROUND_MS - 1)
    broker.end(half, COMMIT)
    broker.pass_time(ROUND_MS)
    assert broker.take_checks() == []


def test_producers_of_a_group_take_turns_and_those_that_do_not_read_are_skipped():
    broker = Transacting()
    producers = [broker.join(producer=Producer(port)) for port in (1, 2, 3)]
    producers[1].is_full = True
    for number in range(6):
        broker.half(f"m{number}")
    broker.pass_time(ROUND_MS)
    counts = [len(producer.told) for producer in producers]
    assert counts[1] == 0
    assert sum(counts) == 6
    assert min(counts[0], counts[2]) >= 2


def test_a_group_is_checked_for_its_own_messages():
    broker = Transacting()
    mine, other = broker.join("mine"), broker.join("other", Producer(2))
    broker.half("my message", group="mine")
    broker.half("other message", group="other")
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks(mine)) == ["my message"]
    assert names(broker.take_checks(other)) == ["other message"]


def test_a_producer_that_connects_later_is_checked_then():
    broker = Transacting()
    broker.half("one")
    broker.pass_time(2 * ROUND_MS)
    broker.join()
    broker.pass_time(ROUND_MS)
    ((name, copy),) = broker.take_checks()
    assert name == "one"
    broker.end(copy, COMMIT, from_transaction_check=True)
    assert broker.delivered() == ["one"]


# --- immunity


def test_an_immune_message_is_not_checked_and_ends_under_its_first_offset():
    broker = Transacting()
    broker.join()
    half = broker.half("one", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    broker.pass_time(3 * ROUND_MS)
    assert broker.take_checks() == []
    assert len(broker.records(HALF_TOPIC)) == 4, "a copy in each round"
    assert decode_properties(broker.records(HALF_TOPIC)[-1].properties)["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    broker.end(half, COMMIT)
    broker.pass_time(5 * ROUND_MS)
    assert broker.take_checks() == []
    assert broker.delivered() == ["one"]


def test_after_the_immunity_a_message_is_checked_as_often_as_any():
    broker = Transacting(transaction_checks_max=2)
    broker.join()
    broker.half("one", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    broker.pass_time(5 * ROUND_MS)
    assert names(broker.take_checks()) == ["one", "one"], "rounds during the immunity do not count"
    broker.pass_time(ROUND_MS)
    assert broker.given_up() == ["one"]


# --- late ends


def test_a_late_commit_ends_the_checked_copy_too():
    broker = Transacting()
    broker.join()
    half = broker.half("one")
    broker.pass_time(ROUND_MS)
    ((_, copy),) = broker.take_checks()
    broker.end(half, COMMIT)
    assert broker.delivered() == ["one"]
    broker.end(copy, COMMIT, from_transaction_check=True)
    broker.pass_time(3 * ROUND_MS)
    assert broker.delivered() == ["one"], "the message is delivered once, however often it is committed"
    assert broker.take_checks() == []


def test_a_commit_after_a_late_rollback_delivers_nothing():
    broker = Transacting()
    broker.join()
    half = broker.half("one")
    broker.pass_time(ROUND_MS)
    ((_, copy),) = broker.take_checks()
    broker.end(half, ROLLBACK)
    broker.end(copy, COMMIT, from_transaction_check=True)
    assert broker.delivered() == []


# --- giving up


def test_a_message_is_given_up_when_the_last_check_is_not_answered():
    broker = Transacting(transaction_checks_max=3)
    broker.join()
    broker.half("one", TAGS="red")
    broker.pass_time(3 * ROUND_MS)
    assert names(broker.take_checks()) == ["one"] * 3
    assert broker.given_up() == [], "the last check may still be answered"
    broker.pass_time(ROUND_MS)
    assert broker.take_checks() == []
    (record,) = broker.records(CHECK_MAX_TIME_TOPIC)
    assert (record.body, record.flag, record.queue_id, record.sys_flag) == (b"one", 7, 0, 0)
    properties = decode_properties(record.properties)
    assert (properties["REAL_TOPIC"], properties["TRANSACTION_CHECK_TIMES"], properties["TAGS"]) == (TOPIC, "3", "red")
    assert CHECK_MAX_TIME_TOPIC in broker.topics
    broker.pass_time(3 * ROUND_MS)
    assert broker.given_up() == ["one"]
    assert broker.delivered() == []


def test_an_administrator_resumes_the_checks_of_a_given_up_message():
    broker = Transacting(transaction_checks_max=1)
    broker.join()
    broker.half("one")
    broker.pass_time(2 * ROUND_MS)
    (record,) = broker.records(CHECK_MAX_TIME_TOPIC)
    broker.take_checks()
    fields = {"msgId": encode_offset_id(record.store_host, record.physical_offset), "topic": TOPIC}
    peer = Producer()
    broker.router.handle(peer.connection, [Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields=fields)])
    assert peer.sent[0].code == ResponseCode.SUCCESS
    broker.pass_time(ROUND_MS)
    ((_, copy),) = broker.take_checks()
    broker.end(copy, COMMIT, from_transaction_check=True)
    assert broker.delivered() == ["one"]


def test_with_sync_flush_a_resumed_check_is_answered_after_the_flush():
    broker = Transacting(sync_flush=True)
    half = broker.half("one")
    broker.flush()
    (record,) = broker.records(HALF_TOPIC)
    assert record.physical_offset == half.physical_offset
    fields = {"msgId": encode_offset_id(record.store_host, record.physical_offset), "topic": TOPIC}
    peer = Producer()
    broker.router.handle(peer.connection, [Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields=fields)])
    assert peer.sent == []
    broker.flush()
    assert [answer.code for answer in peer.sent] == [ResponseCode.SUCCESS]


def test_checks_of_other_messages_cannot_be_resumed():
    broker = Transacting()
    half = broker.half("one")
    broker.end(half, COMMIT)
    (record,) = broker.records(TOPIC)
    peer = Producer()
    fields = {"msgId": encode_offset_id(record.store_host, record.physical_offset)}
    broker.router.handle(peer.connection, [Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields=fields)])
    assert peer.sent[0].code == ResponseCode.SYSTEM_ERROR
    assert len(broker.records(HALF_TOPIC)) == 1


def test_a_message_older_than_the_reserved_time_is_given_up():
    broker = Transacting(reserved_hours=1)
    broker.join()
    broker.half("one", born_ms=broker.now_ms - 3_600_000)
    broker.pass_time(ROUND_MS)
    assert broker.take_checks() == []
    assert broker.given_up() == ["one"]


def test_a_message_whose_properties_have_no_room_for_the_check_times_is_given_up():
    broker = Transacting(segment_bytes=1 << 20)
    broker.join()
    broker.half("one", note="x" * 32_500)
    length = len(broker.records(HALF_TOPIC)[0].properties)
    broker.half("two", note="x" * (32_500 + 32_767 - length))
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == ["one"]
    assert broker.given_up() == ["two"]


# --- progress


def test_progress_is_published_when_all_that_it_relies_on_is_on_disk():
    broker = Transacting()
    broker.join()
    broker.end(broker.half("one"), COMMIT)
    broker.half("two")
    broker.pass_time(ROUND_MS + 5_000)
    assert broker.progress() == (-1, -1)
    broker.store.flush()
    broker.pass_time(500)
    assert broker.progress() == (2, 1)


def test_a_round_starts_from_unpublished_progress():
    broker = Transacting()
    broker.join()
    broker.half("one")
    broker.pass_time(2 * ROUND_MS)
    assert names(broker.take_checks()) == ["one", "one"], "once in each round"
    assert len(broker.records(HALF_TOPIC)) == 3


def test_a_round_over_many_half_messages_takes_several_turns():
    broker = Transacting()
    broker.join()
    count = 3 * HALVES_PER_TURN + 5
    halves = [broker.half(f"m{number}") for number in range(count)]
    for half in halves[::3]:
        broker.end(half, COMMIT)
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == [f"m{number}" for number in range(count) if number % 3]
    broker.store.flush()
    broker.pass_time(500)
    assert broker.progress() == (count, 1)


def test_a_message_that_ends_during_the_round_is_skipped():
    broker = Transacting()
    broker.join()
    halves = [broker.half(f"m{number}") for number in range(2 * HALVES_PER_TURN)]
    broker.now_ms += ROUND_MS
    broker.checks.check(broker.now_ms)
    broker.end(halves[-1], COMMIT)
    broker.run_checks()
    assert names(broker.take_checks()) == [f"m{number}" for number in range(2 * HALVES_PER_TURN - 1)]


def test_no_check_is_sent_before_the_copy_is_confirmed():
    broker = Transacting(sync_flush=True)
    broker.join()
    broker.half("one")
    broker.store.flush()
    broker.now_ms += ROUND_MS
    broker.run_checks()
    assert broker.take_checks() == [], "the answer would not find the copy"
    broker.store.flush()
    broker.pass_time(100, step_ms=10)
    ((_, copy),) = broker.take_checks()
    assert broker.end(copy, COMMIT, flushes=True, from_transaction_check=True) is not None
    broker.store.flush()
    assert broker.delivered() == ["one"]


def test_rounds_go_on_after_the_clock_is_set_back():
    broker = Transacting()
    broker.join()
    broker.pass_time(ROUND_MS)
    broker.now_ms -= 3_600_000
    broker.run_checks()
    broker.half("one")
    broker.pass_time(2 * ROUND_MS)
    assert "one" in names(broker.take_checks())


# --- restarts


def test_after_a_kill_open_transactions_are_checked():
    broker = Transacting()
    broker.half("open")
    broker.end(broker.half("committed"), COMMIT)
    broker.checks.write_ops(broker.now_ms)
    broker.half("open too")
    broker = broker.restart_after_kill()
    broker.join()
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == ["open", "open too"]


def test_after_a_lost_op_message_the_producer_is_checked_and_the_message_is_there():
    broker = Transacting()
    broker.end(broker.half("one"), COMMIT)
    broker = broker.restart_after_kill()
    assert broker.delivered() == ["one"]
    broker.join()
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == ["one"]


def test_close_writes_the_op_message():
    broker = Transacting()
    broker.join()
    broker.end(broker.half("one"), ROLLBACK)
    broker.checks.close(broker.now_ms)
    assert broker.op_bodies() == ["0,"]
    assert broker.producer.told == []


def test_after_a_power_cut_the_progress_has_not_passed_a_lost_copy():
    for seed in range(30):
        broker = Transacting(sync_flush=True)
        broker.join()
        broker.half("one")
        broker.store.flush()
        broker.now_ms += ROUND_MS
        broker.run_checks()  # the copy is appended and not flushed
        broker.pass_time(1_000)
        broker.save_offsets()
        broker = broker.restart_after_power_cut(Random(seed))
        broker.join()
        for _ in range(3):
            broker.now_ms += ROUND_MS
            broker.run_checks()
            broker.store.flush()
            broker.run_checks()
        assert "one" in names(broker.take_checks()), f"seed {seed}"


def test_progress_beyond_the_ends_of_the_queues_is_limited():
    broker = Transacting()
    broker.half("one")
    broker.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 50)
    broker.offsets.commit(TRANSACTION_GROUP, OP_TOPIC, 0, 50)
    broker.save_offsets()
    broker = broker.restart_after_kill()
    broker.join()
    expected = [broker.half(f"m{number}") and f"m{number}" for number in range(60)]
    broker.pass_time(ROUND_MS)
    assert names(broker.take_checks()) == expected, "messages that came since then are not done"
    broker.store.flush()
    broker.pass_time(500)
    assert broker.progress() == (61, 0)

"""END_TRANSACTION (37): what is stored and answered. The expectations are what Apache 5.5.0 did."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.transactions.contributor import TransactionContributor
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.records import HalfFacts, op_offsets
from skyrocket.net import outside_log
from skyrocket.net.router import RefusedError
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import Record, decode_record, encode_record
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import (
    COMPRESSED,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from skyrocket.protocol.system_names import HALF_TOPIC
from skyrocket.store.errors import DiskFullError
from skyrocket.store.log.readdress import readdress_record
from skyrocket.store.message import AppendResult
from tests.support.brokers.running_broker import send_header
from tests.support.brokers.transaction_parts import GROUP, TOPIC, Producer, Transacting
from tests.support.stores.simulated_disk import SimulatedDisk

COMMIT, ROLLBACK = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK


# --- half messages


def redirect(properties: dict[str, str], settings: BrokerSettings | None = None, **header: int) -> Record | None:
    contributor = TransactionContributor(lambda: settings or BrokerSettings(), cast("EndTransactionHandler", None))
    record = Record(TOPIC, b"x", queue_id=3, sys_flag=TRANSACTION_PREPARED | COMPRESSED)
    return contributor.redirect(send_header(TOPIC, 3, **header), record, properties)


def test_a_half_message_lies_in_the_half_topic_and_names_its_own_queue():
    properties = {"UNIQ_KEY": "U1", "TRAN_MSG": "true", "PGROUP": GROUP}
    half = redirect(properties)
    assert half is not None
    assert (half.topic, half.queue_id, half.sys_flag) == (HALF_TOPIC, 0, COMPRESSED)
    assert properties == {
        "UNIQ_KEY": "U1",
        "TRAN_MSG": "true",
        "PGROUP": GROUP,
        "__transactionId__": "U1",
        "REAL_TOPIC": TOPIC,
        "REAL_QID": "3",
    }


@pytest.mark.parametrize("text", ["false", "1", "", "yes"])
def test_a_message_whose_property_is_not_true_is_no_half_message(text: str):
    assert redirect({"TRAN_MSG": text}) is None


def test_true_counts_in_any_case():
    assert redirect({"TRAN_MSG": "TRUE"}) is not None


@pytest.mark.parametrize("delay", ["DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"])
def test_a_delayed_transaction_is_refused(delay: str):
    with pytest.raises(RefusedError, match="cannot be delayed") as refused:
        redirect({"TRAN_MSG": "true", delay: "3"})
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_message_that_an_old_client_sends_back_is_no_half_message():
    assert redirect({"TRAN_MSG": "true", "DELAY": "3"}, reconsume_times=1) is None


def test_delay_level_0_is_no_delay():
    assert redirect({"TRAN_MSG": "true", "DELAY": "0"}) is not None


def test_a_broker_can_reject_transactions():
    with pytest.raises(RefusedError, match="rejects transactions") as refused:
        redirect({"TRAN_MSG": "true"}, BrokerSettings(reject_transactions=True))
    assert refused.value.code == ResponseCode.NO_PERMISSION


# --- commit and rollback


def test_a_committed_message_is_the_one_that_was_sent():
    broker = Transacting()
    half = broker.half("one", queue_id=2, TAGS="red", KEYS="k1 k2")
    answer = broker.end(half, COMMIT)
    assert answer is not None
    assert (answer.code, answer.opaque) == (ResponseCode.SUCCESS, 7)
    (record,) = broker.records(TOPIC, queue_id=2)
    (waiting,) = broker.records(HALF_TOPIC)
    assert (record.topic, record.queue_id, record.queue_offset) == (TOPIC, 2, 0)
    assert record.prepared_transaction_offset == half.physical_offset
    assert record.sys_flag == TRANSACTION_COMMIT
    same = ("body", "flag", "born_timestamp", "born_host", "store_host", "reconsume_times", "body_crc", "magic")
    assert [getattr(record, name) for name in same] == [getattr(waiting, name) for name in same]
    assert decode_properties(record.properties) == {
        "UNIQ_KEY": "one",
        "TRAN_MSG": "true",
        "PGROUP": GROUP,
        "TAGS": "red",
        "KEYS": "k1 k2",
        "__transactionId__": "one",
    }


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
def test_with_sync_flush_an_end_is_answered_after_the_flush(outcome: int):
    broker = Transacting(sync_flush=True)
    half = broker.half("one")
    broker.flush()
    broker.half("another")  # keeps the log unflushed when a rollback writes nothing
    assert broker.end(half, outcome) is None
    answer = broker.end(half, outcome, flushes=True)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS


def test_a_committed_message_is_found_by_its_tag_and_key():
    broker = Transacting()
    broker.end(broker.half("one", TAGS="red", KEYS="k1"), COMMIT)
    assert len(broker.store.reading.query(TOPIC, "k1", 0, 2**60, 10)) == 1
    assert len(broker.store.reading.query(TOPIC, "one", 0, 2**60, 10)) == 1


def test_a_rolled_back_message_is_never_seen():
    broker = Transacting()
    answer = broker.end(broker.half("one"), ROLLBACK)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert broker.delivered() == []


def test_irregular_properties_are_stored_unchanged():
    record = Record(HALF_TOPIC, b"x", b"a\x01b\x01c\x02REAL_TOPIC\x01t\x02REAL_QID\x010\x02")
    facts = HalfFacts.of(decode_properties(record.properties))
    assert facts.address is not None
    message = readdress_record((memoryview(encode_record(record)), facts.address, None, b""))
    assert decode_record(message.record).properties == b"a\x01b\x01c\x02"


def test_an_unknown_outcome_leaves_the_transaction_open():
    """Apache sends no answer here; ours answers, so that a waiting client does not time out."""
    broker = Transacting()
    half = broker.half("one")
    answer = broker.end(half, TRANSACTION_NONE)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert broker.delivered() == []
    assert broker.end(half, COMMIT) is not None
    assert broker.delivered() == ["one"]


def test_a_oneway_end_commits_without_an_answer():
    broker = Transacting()
    assert broker.end(broker.half("one"), COMMIT, oneway=True) is None
    assert broker.delivered() == ["one"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"producer_group": "other"}, "producer group 'other'"),
        ({"tran_state_table_offset": 9}, "not 9"),
        ({"commit_log_offset": 1 << 40}, "no half message at"),
        ({"commit_log_offset": -1}, "no half message at"),
        ({"commit_log_offset": 5}, "no half message at"),
        ({"commit_or_rollback": 4}, "not 4"),
    ],
)
def test_an_end_that_does_not_match_its_half_message_is_refused(given: dict[str, object], sentence: str):
    broker = Transacting()
    half = broker.half("one")
    answer = broker.end(half, **{"outcome": COMMIT} if "commit_or_rollback" not in given else {"outcome": 4}, **_without(given))
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert sentence in (answer.remark or "")
    assert broker.delivered() == []
    assert not broker.checks.ops


def _without(given: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if name != "commit_or_rollback"}


def test_a_message_of_another_topic_cannot_be_committed():
    broker = Transacting()
    properties = encode_properties({"PGROUP": GROUP, "REAL_TOPIC": "stolen", "REAL_QID": "0"})
    (placed,) = broker.internal_writer.write([Record(TOPIC, b"plain", properties)])
    answer = broker.end(placed, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert broker.records("stolen") == []


def test_a_refused_oneway_end_is_logged(caplog: pytest.LogCaptureFixture):
    broker = Transacting()
    with caplog.at_level(logging.WARNING):
        broker.end(broker.half("one"), COMMIT, oneway=True, producer_group="other")
    assert "not accepted" in caplog.text


def test_refused_oneway_ends_neither_forge_log_lines_nor_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outside_log, "LINES_MAX", 10)
    broker = Transacting()
    half = broker.half("one")
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            broker.end(half, COMMIT, oneway=True, producer_group="other\nERROR the disk is full\x1b[31m")
    assert len(caplog.messages) <= 10
    assert not any("\n" in line or "\x1b" in line for line in caplog.messages)


def test_an_end_after_the_immunity_must_wait_for_a_check():
    broker = Transacting()
    half = broker.half("one", CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    broker.now_ms += 10_001
    answer = broker.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert broker.delivered() == []
    assert broker.end(half, COMMIT, from_transaction_check=True) is not None
    assert broker.delivered() == ["one"]


def test_an_expired_half_message_cannot_end():
    broker = Transacting()
    answer = broker.end(AppendResult(0, 0, 0), COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR


# --- op messages


def test_all_ends_of_a_read_event_are_one_append():
    broker = Transacting(transaction_op_bytes_max=6)
    halves = [broker.half(f"m{number}") for number in range(3)]
    peer = Producer()
    appends: list[int] = []
    append = broker.store.append_encoded
    broker.store.append_encoded = lambda *given: appends.append(len(given[2])) or append(*given)  # type: ignore[method-assign]
    commands = []
    for half in halves:
        broker.router.handle = lambda _, found: commands.extend(found)  # type: ignore[method-assign, assignment]
        broker.end(half, COMMIT)
    broker.ends.handle(commands, peer.connection)
    assert appends == [4], "three messages and the op message that they fill"
    assert broker.delivered() == ["m0", "m1", "m2"]
    assert broker.op_bodies() == ["0,1,2,"]
    assert len(peer.sent) == 3


def test_one_op_message_names_all_ends_of_the_interval():
    broker = Transacting()
    halves = [broker.half(f"m{number}") for number in range(3)]
    for half in halves:
        broker.end(half, ROLLBACK)
    assert broker.wakes == 1, "once, for the first end"
    broker.pass_time(2_999)
    assert broker.op_bodies() == []
    broker.pass_time(1)
    assert broker.op_bodies() == ["0,1,2,"]


def test_op_messages_of_version_5_and_version_4_are_read():
    properties = encode_properties({"TAGS": "d"})
    assert op_offsets(Record("op", b"17,19,20,", properties)) == [17, 19, 20]
    assert op_offsets(Record("op", b"17", properties)) == [17]
    assert op_offsets(Record("op", b"17,x,\xff,-3,20", properties)) == [17, 20]
    assert op_offsets(Record("op", b"17", encode_properties({"TAGS": "other"}))) == []


def test_with_a_full_disk_an_end_is_refused_and_has_no_effect():
    broker = Transacting(SimulatedDisk(), transaction_op_bytes_max=1)
    half = broker.half("one")

    def full(*_: object) -> None:
        raise DiskFullError("The disk is full.")

    append_position, broker.store.append_position = broker.store.append_position, full  # type: ignore[method-assign, assignment]
    for outcome in (COMMIT, ROLLBACK):
        answer = broker.end(half, outcome)
        assert answer is not None
        assert answer.code != ResponseCode.SUCCESS
    assert not broker.checks.ops
    broker.store.append_position = append_position  # type: ignore[method-assign]
    broker.end(half, COMMIT)
    assert broker.delivered() == ["one"]

"""Op messages behind damage of the log: a half message has ended only if what it committed is there, or cannot have been lost."""

from __future__ import annotations

import pytest

from skyrocket.broker.transactions.doubtful_ends import DoubtfulEnds
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from skyrocket.store.message import AppendResult
from tests.support.brokers.transaction_parts import TOPIC, Transacting
from tests.support.stores.simulated_disk import SECTOR_BYTES
from tests.support.stores.store_messages import ROOT

COMMIT, ROLLBACK = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
ROUND_MS = 30_000


def a_broker() -> Transacting:
    """Each end has an op message of its own, right behind what it commits."""
    return Transacting(transaction_op_bytes_max=1)


def restart_without(broker: Transacting, *lost: Record, restarts: int = 0) -> Transacting:
    """Cut the power so that these records do not reach the disk, though records behind them do."""
    broker = broker.restart_after_losing([AppendResult(0, each.physical_offset, len(encode_record(each))) for each in lost])
    for _ in range(restarts):
        broker = broker.restart_after_kill()
    broker.join()
    return broker


def answer_checks(broker: Transacting, outcome: int) -> list[str]:
    broker.pass_time(ROUND_MS)
    checks = broker.take_checks()
    for _, copy in checks:
        broker.end(copy, outcome, from_transaction_check=True)
    return [name for name, _ in checks]


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_producer_is_asked_again_when_a_crash_lost_the_committed_message_and_kept_its_op_message(restarts: int):
    broker = a_broker()
    half = broker.half("one")
    broker.flush()
    broker.end(half, COMMIT)
    broker = restart_without(broker, *broker.records(TOPIC), restarts=restarts)
    assert (broker.delivered(), broker.op_bodies()) == ([], ["0,"])
    assert answer_checks(broker, COMMIT) == ["one"]
    assert broker.delivered() == ["one"]
    assert answer_checks(broker, COMMIT) == [], "the answer has ended it"


def test_the_committed_message_of_another_transaction_does_not_count():
    broker = a_broker()
    halves = [broker.half(name) for name in ("one", "two", "three")]
    broker.flush()
    for half in halves:
        broker.end(half, COMMIT)
    broker = restart_without(broker, broker.records(TOPIC)[1])
    assert broker.delivered() == ["one", "three"]
    assert answer_checks(broker, COMMIT) == ["two"]
    assert broker.delivered() == ["one", "three", "two"], "the others are neither asked for nor delivered again"


def test_a_message_that_was_rolled_back_behind_damage_is_never_delivered():
    broker = a_broker()
    halves = [broker.half(name) for name in ("one", "two")]
    broker.flush()
    broker.end(halves[0], COMMIT)
    broker.end(halves[1], ROLLBACK)
    broker = restart_without(broker, *broker.records(TOPIC))
    broker.pass_time(ROUND_MS)
    for name, copy in broker.take_checks():
        broker.end(copy, {"one": COMMIT, "two": ROLLBACK}[name], from_transaction_check=True)
    assert broker.delivered() == ["one"]
    assert answer_checks(broker, COMMIT) == []


def test_an_end_since_the_restart_is_not_in_doubt():
    broker = a_broker()
    kept = broker.half("one")
    broker.end(broker.half("two"), COMMIT)
    broker.half("behind")
    broker = restart_without(broker, *broker.records(TOPIC))
    broker.end(kept, ROLLBACK)
    assert answer_checks(broker, COMMIT) == ["two", "behind"]


def test_half_messages_behind_the_damage_are_not_in_doubt():
    broker = a_broker()
    broker.end(broker.half("one"), COMMIT)
    broker.end(broker.half("two"), ROLLBACK)
    broker = restart_without(broker, *broker.records(TOPIC))
    assert answer_checks(broker, COMMIT) == ["one"]


def test_with_an_unreadable_index_a_doubtful_message_comes_rather_twice_than_never():
    broker = a_broker()
    halves = [broker.half(name) for name in ("one", "two")]
    broker.flush()
    for half in halves:
        broker.end(half, COMMIT)
    broker = restart_without(broker, broker.records(TOPIC)[0])
    for path, node in broker.disk.nodes.items():
        if path.startswith(f"{ROOT}/index/"):
            node.bad.update(range(0, len(node.content), SECTOR_BYTES))
    assert answer_checks(broker, COMMIT) == ["one", "two"]
    assert broker.delivered() == ["two", "one", "two"]


def test_a_round_says_how_many_half_messages_had_lost_their_committed_message(caplog: pytest.LogCaptureFixture):
    broker = a_broker()
    halves = [broker.half(name) for name in ("one", "two")]
    broker.flush()
    for half in halves:
        broker.end(half, COMMIT)
    broker = restart_without(broker, broker.records(TOPIC)[0])
    broker.pass_time(2 * ROUND_MS)
    (warning,) = [record.getMessage() for record in caplog.records if "A crash lost" in record.getMessage()]
    assert "the op messages of 1 half messages" in warning


@pytest.mark.parametrize(
    ("half", "op", "is_doubtful"),
    [
        pytest.param(100, 400, True, id="damage between them"),
        pytest.param(100, 900, True, id="two damaged ranges between them"),
        pytest.param(100, 250, False, id="damage behind both"),
        pytest.param(310, 450, False, id="damage before both"),
        pytest.param(310, 600, True, id="the second damaged range between them"),
    ],
)
def test_only_damage_between_a_half_message_and_its_op_message_puts_the_end_in_doubt(half: int, op: int, is_doubtful: bool):
    assert DoubtfulEnds([300, 500], first=50, end=1_000).is_doubtful(half, op) is is_doubtful


@pytest.mark.parametrize(
    ("damage", "op", "may_be"),
    [
        pytest.param([], 400, False, id="a healthy log"),
        pytest.param([40], 400, False, id="damage before all half messages that are not done"),
        pytest.param([300], 250, False, id="an op message before the damage"),
        pytest.param([300], 400, True, id="an op message behind the damage"),
        pytest.param([300], 1_000, False, id="an op message written since the start"),
    ],
)
def test_op_messages_that_cannot_be_in_doubt_are_known_by_their_place(damage: list[int], op: int, may_be: bool):
    assert DoubtfulEnds(damage, first=50, end=1_000).may_be_doubtful(op) is may_be

"""Waiting pulls are taken when a message arrives or their time is up."""

from __future__ import annotations

from skyrocket.broker.pull.long_polling import LongPollingTable, WaitingPull


def parked(**given) -> tuple[LongPollingTable[str], WaitingPull[str]]:
    pull = WaitingPull(
        **{"request": "r", "connection": 7, "topic": "orders", "queue_id": 0, "scanned_to": 10, "until_ms": 15_000} | given
    )
    waiting: LongPollingTable[str] = LongPollingTable()
    assert waiting.park(pull)
    return waiting, pull


def test_new_messages_wake_a_waiting_pull_once():
    waiting, pull = parked()
    assert waiting.take_ready("orders", 0, 11) == [pull]
    assert waiting.take_ready("orders", 0, 12) == []
    assert waiting.take_expired(99_000, 10) == []


def test_another_queue_wakes_no_pull():
    waiting, _ = parked()
    assert waiting.take_ready("orders", 1, 99) == waiting.take_ready("other", 0, 99) == []


def test_only_queues_for_which_pulls_wait_are_looked_at():
    waiting, pull = parked()
    assert waiting.of_queues([("other", 0), ("orders", 0), ("orders", 1)]) == [("orders", 0)]
    assert waiting.take(pull)
    assert waiting.of_queues([("orders", 0)]) == []


def test_messages_that_a_pull_has_read_do_not_wake_it():
    waiting, _ = parked(scanned_to=11)
    assert waiting.take_ready("orders", 0, 11) == []


def test_pull_may_be_parked_again_at_a_later_offset():
    waiting, pull = parked()
    waiting.take_ready("orders", 0, 11)
    pull.scanned_to = 11
    assert waiting.park(pull)
    assert waiting.take_ready("orders", 0, 11) == []
    assert waiting.take_ready("orders", 0, 12) == [pull]


def test_pull_expires_at_its_deadline():
    waiting, pull = parked()
    assert waiting.take_expired(14_999, 10) == []
    assert waiting.take_expired(15_000, 10) == [pull]
    assert waiting.take_ready("orders", 0, 99) == []


def test_pulls_of_a_closed_connection_are_dropped():
    waiting, _ = parked()
    assert waiting.drop_connection(7) == 1
    assert waiting.drop_connection(7) == 0
    assert waiting.take_ready("orders", 0, 99) == []
    assert waiting.take_expired(99_000, 10) == []


def test_no_more_expired_pulls_are_taken_than_wanted():
    waiting: LongPollingTable[str] = LongPollingTable()
    pulls = [WaitingPull("r", number, "orders", 0, 0, 10 + number) for number in range(5)]
    for pull in pulls:
        waiting.park(pull)
    assert waiting.take_expired(99, 3) == pulls[:3]
    assert waiting.take_expired(99, 3) == pulls[3:]


def test_a_pull_is_taken_once():
    waiting, pull = parked()
    assert waiting.waiting_pulls() == [pull]
    assert waiting.take(pull)
    assert not waiting.take(pull)
    assert len(waiting) == 0
    assert waiting.waiting_pulls() == []
    assert waiting.park(pull)
    assert waiting.take_expired(15_000, 10) == [pull]


def test_table_is_bounded():
    waiting: LongPollingTable[str] = LongPollingTable(most=2)
    pulls = [WaitingPull("r", number, "orders", 0, 0, 10) for number in range(3)]
    assert [waiting.park(pull) for pull in pulls] == [True, True, False]
    waiting.drop_connection(0)
    assert waiting.park(pulls[2])


def test_taken_pulls_leave_the_heap():
    waiting: LongPollingTable[str] = LongPollingTable()
    for offset in range(10_000):
        waiting.park(WaitingPull("r", 7, "orders", 0, offset, 15_000))
        waiting.take_ready("orders", 0, offset + 1)
    assert len(waiting._by_deadline) < 2_000
    assert not waiting._by_queue
    assert not waiting._by_connection

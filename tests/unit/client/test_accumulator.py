from __future__ import annotations

from skyrocket.client.accumulator import Accumulator, Batch


def entries(batches: list[Batch[str, int]]) -> list[list[int]]:
    return [batch.entries for batch in batches]


def test_messages_wait_for_company_until_the_first_has_lingered():
    accumulator: Accumulator[str, int] = Accumulator(linger_ms=5, bytes_max=1_000, messages_max=100)
    assert accumulator.add("t", 1, 10, now_ms=0) == []
    assert accumulator.add("t", 2, 10, now_ms=4) == []
    assert accumulator.next_due_ms() == 5
    assert accumulator.due(4.9) == []
    assert entries(accumulator.due(5)) == [[1, 2]]
    assert accumulator.next_due_ms() is None


def test_a_full_batch_leaves_at_once():
    accumulator: Accumulator[str, int] = Accumulator(linger_ms=5, bytes_max=100, messages_max=3)
    assert accumulator.add("t", 1, 50, now_ms=0) == []
    assert entries(accumulator.add("t", 2, 50, now_ms=0)) == [[1, 2]]
    for number in (3, 4):
        accumulator.add("t", number, 1, now_ms=0)
    assert entries(accumulator.add("t", 5, 1, now_ms=0)) == [[3, 4, 5]]
    assert len(accumulator) == 0


def test_one_that_does_not_fit_any_more_sends_the_others_off_and_begins_a_batch():
    accumulator: Accumulator[str, int] = Accumulator(linger_ms=5, bytes_max=100, messages_max=10)
    accumulator.add("t", 1, 60, now_ms=0)
    assert entries(accumulator.add("t", 2, 60, now_ms=3)) == [[1]]
    assert accumulator.next_due_ms() == 8


def test_different_keys_do_not_share():
    accumulator: Accumulator[str, int] = Accumulator(linger_ms=5, bytes_max=100, messages_max=10)
    accumulator.add("one", 1, 1, now_ms=0)
    accumulator.add("two", 2, 1, now_ms=1)
    assert entries(accumulator.due(5)) == [[1]]
    assert entries(accumulator.take_all()) == [[2]]


def test_one_joins_a_batch_only_where_it_is_open_and_stays_so():
    accumulator: Accumulator[str, int] = Accumulator(linger_ms=5, bytes_max=100, messages_max=3)
    assert not accumulator.joined("t", 1, 10)
    accumulator.add("t", 1, 10, now_ms=0)
    assert not accumulator.joined("t", 2, 90), "it would be full"
    assert accumulator.joined("t", 2, 89)
    assert not accumulator.joined("t", 3, 0), "it would be the last one"
    assert entries(accumulator.add("t", 3, 0, now_ms=1)) == [[1, 2, 3]]

"""Pending requests: each completes or times out once, and their number is bounded."""

from __future__ import annotations

from skyrocket.net.pending import PendingRequests


def waiting(**deadlines: int) -> PendingRequests[str]:
    pending: PendingRequests[str] = PendingRequests(10)
    for number, (name, deadline) in enumerate(deadlines.items()):
        assert pending.add(number, deadline, name)
    return pending


def test_a_response_completes_its_request_once():
    pending = waiting(a=100)
    assert pending.pop(0) == "a"
    assert pending.pop(0) is None


def test_a_response_without_a_request_is_ignored():
    assert waiting(a=100).pop(7) is None


def test_a_request_times_out_at_its_deadline_and_not_before():
    pending = waiting(a=100, b=200)
    assert pending.pop_expired(99) == []
    assert pending.pop_expired(100) == ["a"]
    assert pending.pop_expired(200) == ["b"]


def test_a_completed_request_does_not_time_out():
    pending = waiting(a=100)
    pending.pop(0)
    assert pending.pop_expired(1_000) == []


def test_the_number_of_pending_requests_is_bounded():
    pending: PendingRequests[str] = PendingRequests(2)
    assert pending.add(1, 0, "a")
    assert pending.add(2, 0, "b")
    assert not pending.add(3, 0, "c")
    pending.pop(1)
    assert pending.add(3, 0, "c")


def test_completed_requests_do_not_accumulate():
    pending: PendingRequests[int] = PendingRequests(10)
    for number in range(20_000):
        pending.add(number, 10**9 + number // 10_000 * number, number)  # first with one deadline, then each with its own
        pending.pop(number)
        assert sum(len(numbers) for _, numbers in pending._deadlines) < 4_000


def test_requests_with_one_deadline_time_out_together():
    pending = waiting(a=100, b=100, c=200)
    assert pending.pop_expired(100) == ["a", "b"]
    pending.add(3, 200, "d")
    pending.pop(2)
    assert pending.next_deadline_ms() == 200
    assert pending.pop_expired(200) == ["d"]
    pending.add(4, 200, "e")
    assert pending.pop_expired(200) == ["e"]


def test_request_ids_wrap_around_within_30_bits():
    pending: PendingRequests[str] = PendingRequests(1)
    pending._next = 2**30 - 2
    assert [pending.next_opaque(), pending.next_opaque()] == [2**30 - 1, 1]


def test_all_pending_requests_fail_when_the_connection_closes():
    pending = waiting(a=1, b=2)
    assert sorted(pending.clear()) == ["a", "b"]
    assert len(pending) == 0
    assert pending.pop_expired(99) == []


def test_the_next_deadline_belongs_to_a_pending_request():
    pending: PendingRequests[str] = PendingRequests(10)
    assert pending.next_deadline_ms() is None
    pending.add(1, 100, "early")
    pending.add(2, 200, "late")
    pending.pop(1)
    assert pending.next_deadline_ms() == 200
    assert pending.pop_expired(150) == []
    pending.pop(2)
    assert pending.next_deadline_ms() is None

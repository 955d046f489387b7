from __future__ import annotations

from skyrocket.client.session.reconnects import ReconnectBackoff


def test_new_address_is_tried_at_once():
    assert ReconnectBackoff(100, 5_000).wait_ms("a", 0) == 0


def test_each_failure_doubles_the_pause_up_to_the_longest():
    reconnects, now_ms, pauses = ReconnectBackoff(100, 1_000), 0, []
    for _ in range(6):
        reconnects.record_failure("a", now_ms)
        pauses.append(reconnects.wait_ms("a", now_ms))
        now_ms += pauses[-1]
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


def test_reports_of_one_attempt_count_as_one_failure():
    reconnects = ReconnectBackoff(100, 5_000)
    for _ in range(50):
        reconnects.record_failure("a", 1_000)
    assert reconnects.wait_ms("a", 1_000) == 100


def test_success_ends_the_pause():
    reconnects = ReconnectBackoff(100, 5_000)
    reconnects.record_failure("a", 0)
    reconnects.record_success("a")
    assert reconnects.wait_ms("a", 0) == 0


def test_addresses_have_separate_pauses():
    reconnects = ReconnectBackoff(100, 5_000)
    reconnects.record_failure("a", 0)
    assert reconnects.wait_ms("b", 0) == 0

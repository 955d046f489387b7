from __future__ import annotations

import random

from skyrocket.client.session.reconnects import ReconnectBackoff


def longest() -> float:
    """Draw the number that shortens no pause."""
    return 0.0


def test_new_address_is_tried_at_once():
    assert ReconnectBackoff(100, 5_000).wait_ms("a", 0) == 0


def test_each_failure_doubles_the_pause_up_to_the_longest():
    reconnects, now_ms, pauses = ReconnectBackoff(100, 1_000, longest), 0, []
    for _ in range(6):
        reconnects.record_failure("a", now_ms)
        pauses.append(reconnects.wait_ms("a", now_ms))
        now_ms += pauses[-1]
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


def test_reports_of_one_attempt_count_as_one_failure():
    reconnects = ReconnectBackoff(100, 5_000, longest)
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


def test_clients_that_failed_together_come_back_at_different_times():
    draw = random.Random(7).random
    clients = [ReconnectBackoff(100, 5_000, draw) for _ in range(1_000)]
    now_ms = 0
    for nominal_ms in (100, 200, 400, 800, 1_600, 3_200, 5_000):
        for client in clients:
            client.record_failure("a", now_ms)
        pauses = [client.wait_ms("a", now_ms) for client in clients]
        assert nominal_ms / 2 <= min(pauses) < max(pauses) <= nominal_ms
        tenths = [sum(1 for pause in pauses if (pause - nominal_ms / 2) // (nominal_ms / 20) == tenth) for tenth in range(10)]
        assert max(tenths) < 200, "no tenth of the interval has a fifth of the clients"
        now_ms += nominal_ms

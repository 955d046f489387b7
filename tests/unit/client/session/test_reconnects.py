from __future__ import annotations

from skyrocket.client.session.reconnects import Reconnects


def test_a_new_address_is_tried_at_once():
    assert Reconnects(100, 5_000).wait_ms("a", 0) == 0


def test_each_failure_doubles_the_pause_up_to_the_most():
    reconnects, now_ms, pauses = Reconnects(100, 1_000), 0, []
    for _ in range(6):
        reconnects.failed("a", now_ms)
        pauses.append(reconnects.wait_ms("a", now_ms))
        now_ms += pauses[-1]
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


def test_those_who_waited_for_the_same_attempt_count_as_one_failure():
    reconnects = Reconnects(100, 5_000)
    for _ in range(50):
        reconnects.failed("a", 1_000)
    assert reconnects.wait_ms("a", 1_000) == 100


def test_a_connection_ends_the_pause():
    reconnects = Reconnects(100, 5_000)
    reconnects.failed("a", 0)
    reconnects.connected("a")
    assert reconnects.wait_ms("a", 0) == 0


def test_addresses_are_apart():
    reconnects = Reconnects(100, 5_000)
    reconnects.failed("a", 0)
    assert reconnects.wait_ms("b", 0) == 0

"""The confirmed position is the least of all requirements, and moves forward only."""

from __future__ import annotations

import pytest

from skyrocket.store.horizon import Horizon


def test_without_requirements_an_append_is_confirmed_at_once():
    horizon = Horizon(100)
    assert horizon.append(150) == 150
    assert (horizon.appended, horizon.flushed, horizon.confirmed) == (150, 100, 150)


def test_with_sync_flush_a_flush_confirms_a_message():
    horizon = Horizon(0, ["flushed"])
    assert horizon.append(50) == 0
    assert horizon.flush(30) == 30
    assert horizon.flush(50) == 50


def test_slowest_requirement_decides():
    horizon = Horizon(0, ["flushed", "replica"])
    horizon.append(100)
    assert horizon.flush(100) == 0
    assert horizon.reach("replica", 60) == 60
    assert horizon.reach("replica", 200) == 100


def test_older_report_of_a_replica_does_not_move_the_horizon_back():
    horizon = Horizon(0, ["replica"])
    horizon.append(100)
    horizon.reach("replica", 80)
    assert horizon.reach("replica", 10) == 80


def test_flushed_position_never_passes_the_appended_one():
    horizon = Horizon(0)
    horizon.append(10)
    horizon.flush(99)
    assert horizon.flushed == 10


def test_late_end_of_an_older_flush_does_not_move_the_horizon_back():
    horizon = Horizon(0, ["flushed"])
    horizon.append(100)
    horizon.flush(100)
    assert horizon.flush(50) == 100
    assert horizon.flushed == 100


def test_new_requirement_keeps_confirmed_messages_confirmed():
    horizon = Horizon(0)
    horizon.append(100)
    horizon.require("replica", 0)
    assert horizon.append(120) == 100
    assert horizon.reach("replica", 120) == 120


def test_released_requirement_no_longer_holds_messages_back():
    horizon = Horizon(0, ["replica"])
    horizon.append(100)
    assert horizon.confirmed == 0
    assert horizon.release("replica") == 100
    assert horizon.release("replica") == 100


def test_the_log_never_shrinks():
    with pytest.raises(AssertionError):
        Horizon(100).append(99)


def test_a_requirement_that_nobody_has_is_reached_with_the_append():
    horizon = Horizon(100)
    horizon.append(200)
    assert horizon.reached("replicas") == 200
    horizon.require("replicas", 150)
    assert horizon.reached("replicas") == 150


def test_only_a_cut_lets_the_horizon_go_back():
    horizon = Horizon(0, ["flushed"])
    horizon.append(500)
    horizon.flush(500)
    horizon.cut(300)
    assert (horizon.appended, horizon.flushed, horizon.confirmed, horizon.reached("flushed")) == (300, 300, 300, 300)
    assert horizon.append(400) == 300
    assert horizon.flush(400) == 400

from __future__ import annotations

from skyrocket.broker.delay.levels import DelayLevel


def test_the_messages_at_the_head_that_are_due_are_counted_and_the_next_ones_time_is_known():
    level = DelayLevel(1, 1_000)
    assert level.count_due([100, 200, 300], 0, 3, 200) == 2
    assert level.next_ms == 300


def test_a_level_without_messages_is_looked_at_when_one_comes():
    level = DelayLevel(1, 1_000)
    assert level.count_due([], 5, 5, 200) == 0
    assert level.next_ms is None


def test_a_level_with_more_than_was_read_is_looked_at_again_at_once():
    level = DelayLevel(1, 1_000)
    assert level.count_due([100, 200], 0, 3, 200) == 2
    assert level.next_ms == 200


def test_nothing_overtakes_a_message_that_is_not_due():
    level = DelayLevel(1, 1_000)
    assert level.count_due([500, 100], 0, 2, 200) == 0


def test_a_time_further_away_than_the_delay_waits_the_delay_once():
    """The clock was set back by an hour, or the level is shorter than it was."""
    level = DelayLevel(1, 1_000)
    far = [3_600_000, 3_600_001]
    assert level.count_due(far, 0, 2, 5_000) == 0
    assert level.next_ms == 6_000
    assert level.count_due(far, 0, 2, 5_999) == 0
    assert level.count_due(far, 0, 2, 6_000) == 2, "all that were there wait together, not one after the other"


def test_what_comes_after_the_clock_was_set_back_waits_its_own_time():
    level = DelayLevel(1, 1_000)
    level.count_due([3_600_000], 0, 1, 5_000)
    assert level.count_due([3_600_000, 6_500], 0, 2, 6_000) == 1
    assert level.next_ms == 6_500


def test_a_clock_set_back_twice_still_does_not_hold_a_message_longer_than_its_delay():
    level = DelayLevel(1, 1_000)
    level.count_due([9_000_000], 0, 1, 5_000_000)
    assert level.count_due([9_000_000], 0, 1, 5_000) == 0
    assert level.next_ms == 6_000

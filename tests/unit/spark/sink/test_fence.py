"""The fence: a run of a driver that takes over replaces every earlier one."""

from __future__ import annotations

from skyrocket.spark.sink.fence import FENCED_MAX, NO_FENCE, Fence, fence_properties, parse_fence, run_label


def test_next_fence_is_higher_and_names_the_runs_before_it():
    first = NO_FENCE.next("a")
    second = first.next("b")
    assert first == Fence(1, "a", ())
    assert second == Fence(2, "b", ("a",))
    assert NO_FENCE < first < second < second.next("a")


def test_fence_names_a_bounded_number_of_runs():
    fence = NO_FENCE
    for number in range(100):
        fence = fence.next(str(number))
    assert fence.fenced == tuple(str(number) for number in range(98, 98 - FENCED_MAX, -1))


def test_one_of_two_runs_with_the_same_epoch_is_higher():
    assert NO_FENCE.next("a") < NO_FENCE.next("b")


def test_fence_is_equal_after_a_round_trip():
    for fence in (NO_FENCE, NO_FENCE.next("a"), NO_FENCE.next("a").next("b").next("c")):
        assert parse_fence(fence_properties(fence)) == fence


def test_runs_have_short_labels():
    assert run_label("one") != run_label("another")
    assert len(run_label("x" * 1_000)) == 12

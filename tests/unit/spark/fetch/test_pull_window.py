"""Pulls ahead of their answers: whatever a broker gives at once, every offset counts once, in order."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.spark.fetch.pull_window import Ask, Part, PullAhead


class SimulatedBroker:
    """Messages of different sizes, given as Apache's broker gives them: the first always, others while number and bytes allow."""

    def __init__(self, sizes: list[int], messages_max: int, bytes_max: int) -> None:
        self.sizes = sizes
        self.messages_max = messages_max
        self.bytes_max = bytes_max

    def next_offset(self, ask: Ask) -> int:
        offset = ask.offset + 1
        left = self.bytes_max - self.sizes[ask.offset]
        while (
            offset < len(self.sizes) and offset - ask.offset < min(ask.messages, self.messages_max) and self.sizes[offset] <= left
        ):
            left -= self.sizes[offset]
            offset += 1
        return offset


def read(ahead: PullAhead, broker: SimulatedBroker, random: Random, most_under_way: int) -> tuple[list[Part], int]:
    """What counted, in order, and how many pulls it took. Answers come in any order, the connection may break."""
    on_their_way: list[Ask] = []
    early: dict[int, int] = {}
    parts: list[Part] = []
    pulls = 0
    while not ahead.is_done:
        asks = ahead.asks()
        pulls += len(asks)
        assert pulls < 20_000, "it does not get on"
        on_their_way += asks
        assert len(on_their_way) <= most_under_way
        if random.random() < 0.02:
            on_their_way.clear()
            early.clear()
            ahead.restart()
            continue
        ask = on_their_way.pop(random.randrange(len(on_their_way)))
        if not ahead.is_wanted(ask.number):
            ahead.dropped()
            continue
        early[ask.number] = broker.next_offset(ask)
        while ahead.head in early:
            parts += taken(ahead, early.pop(ahead.head))
    return parts, pulls


def taken(ahead: PullAhead, next_offset: int) -> list[Part]:
    """The answer at the head, in either of the two ways where it is what was expected."""
    ask = ahead.expected[0]
    if next_offset != ask.upto or ask.number % 2:
        return [ahead.answered(next_offset)]
    ahead.as_expected(1)
    assert ahead.position == ask.upto
    return [Part(ask.offset, ask.upto)]


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=600),
    st.integers(1, 64),
    st.integers(1, 2_000),
    st.integers(1, 10),
    st.randoms(use_true_random=False),
)
def test_every_offset_counts_once_and_in_order(sizes, messages_max, bytes_max, ahead, random):
    broker = SimulatedBroker(sizes, messages_max, bytes_max)
    start = random.randrange(len(sizes))
    stop = random.randint(start, len(sizes))
    parts, _ = read(PullAhead(start, stop, 1_024, ahead), broker, random, ahead)
    assert [offset for part in parts for offset in range(part.start, part.stop)] == list(range(start, stop))


def quiet() -> Random:
    """Answers in order, no broken connection."""
    random = Random()
    random.random = lambda: 1.0  # type: ignore[method-assign]
    random.randrange = lambda *_: 0  # type: ignore[method-assign,assignment]
    return random


def test_after_the_first_answer_pulls_are_as_large_as_a_broker_answers():
    ahead = PullAhead(0, 32 * 300, 1_024, 8)
    _, pulls = read(ahead, SimulatedBroker([1] * 32 * 300, 32, 10**9), quiet(), 8)
    assert ahead.stride == 32
    assert pulls == 300, "nothing was asked for twice"


def test_messages_of_different_sizes_seldom_have_to_be_asked_for_again():
    random = Random(7)
    sizes = [random.randint(8_000, 16_000) for _ in range(20_000)]
    _, pulls = read(PullAhead(0, len(sizes), 1_024, 8), SimulatedBroker(sizes, 32, 256 * 1024), quiet(), 8)
    assert pulls < 20_000 / 20 * 1.6


def test_what_lies_on_disk_is_asked_for_in_small_pulls_and_the_rest_in_large_ones_again():
    class FirstOnDisk(SimulatedBroker):
        def next_offset(self, ask: Ask) -> int:
            self.messages_max = 8 if ask.offset < 10_000 else 32
            return super().next_offset(ask)

    ahead = PullAhead(0, 30_000, 1_024, 8)
    read(ahead, FirstOnDisk([1] * 30_000, 32, 10**9), quiet(), 8)
    assert ahead.stride > 24


def test_with_a_filter_there_is_one_pull_at_a_time_and_the_answer_says_where_to_go_on():
    ahead = PullAhead(100, 500, 64, 8, is_filtered=True)
    (ask,) = ahead.asks()
    assert (ask.offset, ask.messages, ahead.asks()) == (100, 64, [])
    assert ahead.answered(350) == Part(100, 350)
    (ask,) = ahead.asks()
    assert ask.offset == 350
    assert ahead.answered(620) == Part(350, 500), "what is behind the range does not count"
    assert ahead.is_done


def test_a_range_ends_where_it_should_also_when_a_broker_gives_more():
    ahead = PullAhead(0, 10, 1_024, 8)
    (ask,) = ahead.asks()
    assert ask.messages == 10
    assert ahead.answered(32) == Part(0, 10)
    assert ahead.is_done


def test_messages_that_are_gone_are_passed_over():
    ahead = PullAhead(0, 100, 1_024, 8)
    ahead.asks()
    ahead.skip_to(40)
    assert [ask.offset for ask in ahead.asks()] == [40]

"""The pull window: whatever a broker returns at once, every offset counts once, in order."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.spark.fetch.pull_window import OffsetRange, PlannedPull, PullWindow


class SimulatedBroker:
    """Returns messages as Apache's broker does: the first always, others while the limits of count and bytes allow."""

    def __init__(self, sizes: list[int], messages_max: int, bytes_max: int) -> None:
        self.sizes = sizes
        self.messages_max = messages_max
        self.bytes_max = bytes_max

    def next_offset(self, pull: PlannedPull) -> int:
        offset = pull.offset + 1
        left = self.bytes_max - self.sizes[pull.offset]
        while (
            offset < len(self.sizes)
            and offset - pull.offset < min(pull.messages, self.messages_max)
            and self.sizes[offset] <= left
        ):
            left -= self.sizes[offset]
            offset += 1
        return offset


def read(window: PullWindow, broker: SimulatedBroker, random: Random, most_in_flight: int) -> tuple[list[OffsetRange], int]:
    """Read a window to its end. Responses arrive in any order, and the connection may break.

    Return the offsets that counted, in order, and the number of pulls.
    """
    in_flight: list[PlannedPull] = []
    early: dict[int, int] = {}
    parts: list[OffsetRange] = []
    count = 0
    while not window.is_done:
        new = window.next_pulls()
        count += len(new)
        assert count < 20_000, "the window makes no progress"
        in_flight += new
        assert len(in_flight) <= most_in_flight
        if random.random() < 0.02:
            in_flight.clear()
            early.clear()
            window.restart()
            continue
        pull = in_flight.pop(random.randrange(len(in_flight)))
        if not window.is_wanted(pull.number):
            window.drop_stale()
            continue
        early[pull.number] = broker.next_offset(pull)
        while window.head in early:
            parts += complete_head(window, early.pop(window.head))
    return parts, count


def complete_head(window: PullWindow, next_offset: int) -> list[OffsetRange]:
    """Complete the pull at the head. If the response is as expected, use each of the two ways for half of the pulls."""
    pull = window.expected[0]
    if next_offset != pull.upto or pull.number % 2:
        return [window.complete_head(next_offset)]
    window.complete_expected(1)
    assert window.position == pull.upto
    return [OffsetRange(pull.offset, pull.upto)]


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
    parts, _ = read(PullWindow(start, stop, 1_024, ahead), broker, random, ahead)
    assert [offset for part in parts for offset in range(part.start, part.stop)] == list(range(start, stop))


def quiet() -> Random:
    """Return a generator that keeps responses in order and breaks no connection."""
    random = Random()
    random.random = lambda: 1.0  # type: ignore[method-assign]
    random.randrange = lambda *_: 0  # type: ignore[method-assign,assignment]
    return random


def test_window_learns_the_stride_from_the_first_response():
    window = PullWindow(0, 32 * 300, 1_024, 8)
    _, pulls = read(window, SimulatedBroker([1] * 32 * 300, 32, 10**9), quiet(), 8)
    assert window.stride == 32
    assert pulls == 300, "nothing was pulled twice"


def test_messages_of_different_sizes_are_rarely_pulled_twice():
    random = Random(7)
    sizes = [random.randint(8_000, 16_000) for _ in range(20_000)]
    _, pulls = read(PullWindow(0, len(sizes), 1_024, 8), SimulatedBroker(sizes, 32, 256 * 1024), quiet(), 8)
    assert pulls < 20_000 / 20 * 1.6


def test_stride_shrinks_for_messages_on_disk_and_grows_again():
    class FirstOnDisk(SimulatedBroker):
        def next_offset(self, pull: PlannedPull) -> int:
            self.messages_max = 8 if pull.offset < 10_000 else 32
            return super().next_offset(pull)

    window = PullWindow(0, 30_000, 1_024, 8)
    read(window, FirstOnDisk([1] * 30_000, 32, 10**9), quiet(), 8)
    assert window.stride > 24


def test_with_a_filter_one_pull_is_in_flight_and_the_response_gives_the_next_offset():
    window = PullWindow(100, 500, 64, 8, is_filtered=True)
    (pull,) = window.next_pulls()
    assert (pull.offset, pull.messages, window.next_pulls()) == (100, 64, [])
    assert window.complete_head(350) == OffsetRange(100, 350)
    (pull,) = window.next_pulls()
    assert pull.offset == 350
    assert window.complete_head(620) == OffsetRange(350, 500), "offsets after the range do not count"
    assert window.is_done


def test_range_ends_at_its_stop_even_if_a_broker_returns_more():
    window = PullWindow(0, 10, 1_024, 8)
    (pull,) = window.next_pulls()
    assert pull.messages == 10
    assert window.complete_head(32) == OffsetRange(0, 10)
    assert window.is_done


def test_missing_messages_are_skipped():
    window = PullWindow(0, 100, 1_024, 8)
    window.next_pulls()
    window.skip_to(40)
    assert [pull.offset for pull in window.next_pulls()] == [40]

"""Counters of sent and pulled messages: totals that handlers add to once a turn, and rates that are computed on request.

The totals are sampled every ten seconds. A rate is the difference between a sample and the current total, so nothing is done
per message. The broker's own counters keep every sample of a day. Counters of topics and groups keep the samples of the last
minute, one of every ten minutes and one of every hour.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from skyrocket.compiled import twin
from skyrocket.store.message import AppendRequest, DispatchFields

PUT: Final = "put"  # kinds of counters with a key; this one by topic
GET: Final = "get"  # by topic@group
SEND_BACK: Final = "send back"  # by topic@group: messages that consumers sent back
DEAD: Final = "dead"  # by topic@group: messages that became dead letters

SAMPLE_MS: Final = 10_000
KEYS_MAX: Final = 20_000
SAMPLES_PER_SLICE: Final = 2_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

# Each row of samples: (interval, number). The number includes both ends of the time span that the row covers.
Rows = tuple[tuple[int, int], ...]
_EVERY_SAMPLE: Final[Rows] = ((SAMPLE_MS, DAY_MS // SAMPLE_MS + 1),)
_THINNING_OUT: Final[Rows] = ((SAMPLE_MS, 7), (10 * MINUTE_MS, 7), (HOUR_MS, 25))


SIZE_BOUNDS: Final = (1024, 4096, 512 * 1024, 1024 * 1024, 2 * 1024 * 1024, 4 * 1024 * 1024)
"""Apache's: messages are counted by the first bound that they do not exceed. The twin has them, too."""

NO_SIZES: Final = (0,) * (len(SIZE_BOUNDS) + 1)
SizeCounts = tuple[int, ...]
"""How many messages have at most the size of each bound, and more than that of the one before; the last: more than all."""


def _put_by_topic(dispatches: Sequence[DispatchFields]) -> dict[str, tuple[int, int, SizeCounts]]:
    """Map each topic to its number of messages, their bytes, and how many have which size."""
    found: dict[str, tuple[int, int, SizeCounts]] = {}
    for topic, _, _, _, size, _, _, _, _ in dispatches:
        messages, size_bytes, sizes = found.get(topic, (0, 0, NO_SIZES))
        place = bisect_left(SIZE_BOUNDS, size)
        found[topic] = (messages + 1, size_bytes + size, (*sizes[:place], sizes[place] + 1, *sizes[place + 1 :]))
    return found


put_by_topic = twin("dispatch_entries", _put_by_topic)


class Total(NamedTuple):
    messages: int = 0
    size_bytes: int = 0
    times: int = 0  # calls of `add`; mostly requests
    took_ms: int = 0


class Sample(NamedTuple):
    at_ms: int
    total: Total


class Rate(NamedTuple):
    """What was added over a span of time."""

    messages: int = 0
    size_bytes: int = 0
    times: int = 0
    took_ms: int = 0
    span_ms: int = 1

    @property
    def per_second(self) -> float:
        return self.messages * 1000 / self.span_ms


class Counter:
    """A total and its samples."""

    __slots__ = ("_rows", "_samples", "messages", "size_bytes", "sizes", "times", "took_ms")

    def __init__(self, rows: Rows = _THINNING_OUT) -> None:
        self.messages = self.size_bytes = self.times = self.took_ms = 0
        self.sizes = NO_SIZES  # only messages that were put
        self._rows = rows
        self._samples: list[deque[Sample]] = [deque(maxlen=count) for _, count in rows]

    def add(self, messages: int, size_bytes: int, times: int = 1, took_ms: int = 0) -> None:
        self.messages += messages
        self.size_bytes += size_bytes
        self.times += times
        self.took_ms += took_ms

    def add_sizes(self, sizes: SizeCounts) -> None:
        """Count by size what `add` has counted."""
        a, b, c, d, e, f, g = self.sizes  # written out: it is done for each topic in each turn
        u, v, w, x, y, z, more = sizes
        self.sizes = (a + u, b + v, c + w, d + x, e + y, f + z, g + more)

    @property
    def total(self) -> Total:
        return Total(self.messages, self.size_bytes, self.times, self.took_ms)

    def sample(self, now_ms: int) -> None:
        sample = Sample(now_ms, self.total)
        for (apart_ms, _), samples in zip(self._rows, self._samples, strict=True):
            if not samples or now_ms - samples[-1].at_ms >= apart_ms:
                samples.append(sample)

    def rate(self, now_ms: int, over_ms: int) -> Rate:
        """Return the rate over about the last `over_ms`, or since the first sample when that is less."""
        starts = [_first_since(samples, now_ms - over_ms) for samples in self._samples if samples]
        if not starts:
            return Rate()
        at_ms, then = min(starts)
        return Rate(
            self.messages - then.messages,
            self.size_bytes - then.size_bytes,
            self.times - then.times,
            self.took_ms - then.took_ms,
            max(1, now_ms - at_ms),
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing was added since the oldest sample."""
        return all(not samples or samples[0].total == self.total for samples in self._samples)


def _first_since(samples: deque[Sample], start_ms: int) -> Sample:
    return samples[min(bisect_left(samples, start_ms, key=_at_ms), len(samples) - 1)]


def _at_ms(sample: Sample) -> int:
    return sample.at_ms


class Mornings(NamedTuple):
    """The broker's totals of messages when today and yesterday began; 0 if the broker was not running."""

    put_today: int = 0
    get_today: int = 0
    put_yesterday: int = 0
    get_yesterday: int = 0


class Counters:
    """The counters of a broker: `put` and `get` of all messages, and one for each kind and key (topic or `topic@group`)."""

    def __init__(self, now_ms: Callable[[], int], day_of: Callable[[int], int] | None = None) -> None:
        """`day_of` maps a time to the number of its day."""
        self._now_ms = now_ms
        self._day_of = day_of or _local_day
        self.put = Counter(_EVERY_SAMPLE)
        self.get = Counter(_EVERY_SAMPLE)
        self.mornings = Mornings()
        self._keyed: dict[tuple[str, str], Counter] = {}
        self._unsampled: list[tuple[tuple[str, str], Counter]] = []
        self._drops_idle = False  # the table was full at the last sample: idle counters make room
        self._last_sample_ms = 0
        self._day = self._day_of(now_ms())
        self.check_time(now_ms())

    # --- counting, once a turn

    def add(self, kind: str, key: str, messages: int, size_bytes: int, times: int = 1, took_ms: int = 0) -> Counter | None:
        """Add to a counter. Return it; None when there are too many."""
        counter = self._keyed.get((kind, key))
        if counter is None:
            if len(self._keyed) >= KEYS_MAX:
                return None
            counter = self._keyed[kind, key] = Counter()
            counter.sample(self._now_ms())
        counter.add(messages, size_bytes, times, took_ms)
        return counter

    def count_put(self, messages: Sequence[AppendRequest]) -> None:
        """Count messages of one append."""
        sizes: dict[str, list[int]] = {}
        for message in messages:
            sizes.setdefault(message.topic, []).append(len(message.record))
        for topic, of_topic in sizes.items():
            places = [bisect_left(SIZE_BOUNDS, size) for size in of_topic]
            self.count_put_of(topic, len(of_topic), sum(of_topic), tuple(map(places.count, range(len(NO_SIZES)))))

    def count_dispatched(self, dispatches: Sequence[DispatchFields]) -> None:
        """Count messages of one append that are already placed in the log."""
        for topic, (messages, size_bytes, sizes) in put_by_topic(dispatches).items():
            self.count_put_of(topic, messages, size_bytes, sizes)

    def count_put_of(self, topic: str, messages: int, size_bytes: int, sizes: SizeCounts) -> None:
        self.put.add(messages, size_bytes, messages)
        counter = self.add(PUT, topic, messages, size_bytes, messages)
        if counter is not None:
            counter.add_sizes(sizes)

    def count_get(self, group: str, topic: str, messages: int, size_bytes: int, took_ms: int, pulls: int = 1) -> None:
        """Messages that pulls found."""
        self.count_get_of(f"{topic}@{group}", messages, size_bytes, took_ms, pulls)

    def count_get_of(self, key: str, messages: int, size_bytes: int, took_ms: int, pulls: int) -> None:
        """`count_get` for a caller that keeps the counter's key, `topic@group`."""
        self.get.add(messages, size_bytes, pulls, took_ms)
        self.add(GET, key, messages, size_bytes, pulls, took_ms)

    def count_send_back(self, group: str, topic: str, messages: int = 1) -> None:
        """Count messages that a consumer of the group sent back."""
        self.add(SEND_BACK, f"{topic}@{group}", messages, 0, messages)

    def count_dead(self, group: str, topic: str, messages: int = 1) -> None:
        """Count messages of a topic that a group gave up."""
        self.add(DEAD, f"{topic}@{group}", messages, 0, messages)

    def check_time(self, now_ms: int) -> None:
        """Sample the counters every SAMPLE_MS, a slice of them at each call."""
        self._sample_some(now_ms)
        if now_ms - self._last_sample_ms < SAMPLE_MS:
            return
        self._last_sample_ms = now_ms
        if self._day_of(now_ms) != self._day:
            self._day = self._day_of(now_ms)
            before = self.mornings
            self.mornings = Mornings(self.put.messages, self.get.messages, before.put_today, before.get_today)
        self.put.sample(now_ms)
        self.get.sample(now_ms)
        self._drops_idle = len(self._keyed) >= KEYS_MAX
        self._unsampled = list(self._keyed.items())
        self._sample_some(now_ms)

    def _sample_some(self, now_ms: int) -> None:
        for _ in range(min(SAMPLES_PER_SLICE, len(self._unsampled))):
            key, counter = self._unsampled.pop()
            if self._drops_idle and counter.is_idle:
                self._keyed.pop(key, None)
            else:
                counter.sample(now_ms)

    # --- queries

    def find(self, kind: str, key: str) -> Counter | None:
        return self._keyed.get((kind, key))

    def of_kind(self, kind: str) -> Iterable[tuple[str, Counter]]:
        return [(key, counter) for (of, key), counter in self._keyed.items() if of == kind]

    def topic_put(self, topic: str) -> float:
        return self.per_second(PUT, topic)

    def group_get(self, group: str, topic: str) -> float:
        return self.per_second(GET, f"{topic}@{group}")

    def per_second(self, kind: str, key: str, over_ms: int = MINUTE_MS) -> float:
        counter = self._keyed.get((kind, key))
        return 0.0 if counter is None else counter.rate(self._now_ms(), over_ms).per_second


def _local_day(time_ms: int) -> int:
    moment = time.localtime(time_ms / 1000)
    return moment.tm_year * 366 + moment.tm_yday

"""What was sent and fetched: totals that handlers add to once a turn, and rates that are worked out when someone asks.

Samples of the totals are taken every ten seconds and kept for a day; a rate is the difference of two samples. Nothing is done per
message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from skyrocket.store.message import Unplaced

SAMPLE_MS = 10_000
SAMPLES_MAX = 6 * 60 * 24 + 1  # a day of totals of the whole broker
KEY_SAMPLES_MAX = 61  # ten minutes of each topic and group
KEYS_MAX = 20_000
_MINUTE_MS = 60_000


class Sample(NamedTuple):
    at_ms: int
    messages: int


class Rate(NamedTuple):
    """Over a stretch of time."""

    messages: int
    per_second: float


class Counter:
    """One total and its samples."""

    def __init__(self, samples_max: int = KEY_SAMPLES_MAX) -> None:
        self.messages = 0
        self.size_bytes = 0
        self._samples: deque[Sample] = deque(maxlen=samples_max)

    def add(self, messages: int, size_bytes: int) -> None:
        self.messages += messages
        self.size_bytes += size_bytes

    def sample(self, now_ms: int) -> None:
        self._samples.append(Sample(now_ms, self.messages))

    def rate(self, now_ms: int, over_ms: int) -> Rate:
        """Of about the last `over_ms`; of what there is when that is less."""
        if not self._samples:
            return Rate(0, 0.0)
        times = [sample.at_ms for sample in self._samples]
        start = self._samples[min(bisect_left(times, now_ms - over_ms), len(times) - 1)]
        messages = self.messages - start.messages
        return Rate(messages, messages * 1000 / max(1, now_ms - start.at_ms))


class Counters:
    """Of a whole broker, by kind (`put`, `get`) and by kind and key (a topic, `topic@group`)."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.put = Counter(SAMPLES_MAX)
        self.get = Counter(SAMPLES_MAX)
        self._keyed: dict[tuple[str, str], Counter] = {}
        self._last_sample_ms = 0
        self.check_time(now_ms())

    def added(self, kind: str, key: str, messages: int, size_bytes: int) -> None:
        counter = self._keyed.get((kind, key))
        if counter is None:
            if len(self._keyed) >= KEYS_MAX:
                return
            counter = self._keyed[kind, key] = Counter()
            counter.sample(self._now_ms())
        counter.add(messages, size_bytes)

    def count_put(self, messages: Sequence[Unplaced]) -> None:
        """Messages that were appended together."""
        sizes: dict[str, list[int]] = {}
        for message in messages:
            sizes.setdefault(message.topic, []).append(len(message.record))
        for topic, of_topic in sizes.items():
            size_bytes = sum(of_topic)
            self.put.add(len(of_topic), size_bytes)
            self.added("put", topic, len(of_topic), size_bytes)

    def keyed(self, kind: str, key: str) -> Counter | None:
        return self._keyed.get((kind, key))

    def check_time(self, now_ms: int) -> None:
        if now_ms - self._last_sample_ms >= SAMPLE_MS:
            self._last_sample_ms = now_ms
            for counter in (self.put, self.get, *self._keyed.values()):
                counter.sample(now_ms)

    # What the handlers of statistics ask for.

    def topic_put(self, topic: str) -> float:
        return self._per_second("put", topic)

    def group_get(self, group: str, topic: str) -> float:
        return self._per_second("get", f"{topic}@{group}")

    def _per_second(self, kind: str, key: str) -> float:
        counter = self._keyed.get((kind, key))
        return 0.0 if counter is None else counter.rate(self._now_ms(), _MINUTE_MS).per_second

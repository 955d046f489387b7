"""How many timed messages wait for each topic: the file `config/timermetrics` and the response to GET_TIMER_METRICS (61)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from skyrocket.broker.limits import TOPICS_MAX
from skyrocket.protocol.bodies import DataVersion, Metric, TimerMetricsSerializeWrapper


class TimerMetrics:
    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._counts: dict[str, int] = {}
        self._changed_ms: dict[str, int] = {}
        self._shown = 0
        self.changes = 0
        self.version = DataVersion(timestamp=wall_ms())

    def add(self, counts: Mapping[str, int]) -> None:
        """Add counts by topic. Called once a turn."""
        now_ms = self._wall_ms()
        for topic, count in counts.items():
            if topic in self._counts or len(self._counts) < TOPICS_MAX:
                self._counts[topic] = self._counts.get(topic, 0) + count
                self._changed_ms[topic] = now_ms
        self.changes += bool(counts)

    @property
    def counts(self) -> dict[str, int]:
        """Waiting messages by topic."""
        return dict(self._counts)

    def clear(self) -> None:
        self._counts.clear()
        self._changed_ms.clear()
        self.changes += 1

    def load(self, saved: TimerMetricsSerializeWrapper) -> None:
        self._counts = {topic: metric.count for topic, metric in saved.timing_count.items()}
        self._changed_ms = {topic: metric.time_stamp for topic, metric in saved.timing_count.items()}
        self.version = saved.data_version

    def follow(self, master: TimerMetricsSerializeWrapper) -> None:
        """Take the master's counts, which a slave copies."""
        if master.data_version != self.version:
            self.load(master)
            self.changes += 1
            self._shown = self.changes  # the version stays the master's

    def snapshot(self) -> TimerMetricsSerializeWrapper:
        if self.changes != self._shown:
            self._shown = self.changes
            self.version = self.version.next(0, self._wall_ms())
        counted = {topic: Metric(count=count, time_stamp=self._changed_ms[topic]) for topic, count in self._counts.items()}
        return TimerMetricsSerializeWrapper(timing_count=counted, data_version=self.version)

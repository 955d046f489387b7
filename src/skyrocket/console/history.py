"""What the brokers told over the last hour, for the charts and the times of stages. Pure: samples in, series out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from skyrocket.client.admin import BrokerState, StageDurations
from skyrocket.console.limits import BROKERS_SAMPLED_MAX, SAMPLES_MAX, STAGE_WINDOW_SAMPLES
from skyrocket.report.parts import LineChart, LineSeries

P50, P99 = 0.5, 0.99


class BrokerSample(NamedTuple):
    """A broker at one moment, and how long it took to answer."""

    state: BrokerState
    answer_ms: float
    stages_p99_ms: Mapping[str, float] = {}  # of what it did since the sample before; of a stage with nothing to do: missing

    @property
    def name(self) -> str:
        """The name of its line in a chart: slaves of a broker have their numbers."""
        return self.state.broker_name if self.state.is_master else f"{self.state.broker_name} ({self.state.broker_id})"


class ClusterSample(NamedTuple):
    """All brokers at one moment. `error` says why there are none."""

    at_ms: int
    brokers: tuple[BrokerSample, ...]
    error: str = ""


class StageRow(NamedTuple):
    """A stage over the last minute, and since the broker started."""

    stage: str
    recent: StageDurations
    whole: StageDurations


Figure = Callable[[BrokerSample], float | None]

CHARTS: Final[tuple[tuple[str, str, Figure], ...]] = (
    ("Messages in", "messages/s", lambda one: one.state.put_rate),
    ("Messages out", "messages/s", lambda one: one.state.get_rate),
    ("Time to store, 99 % at most", "ms", lambda one: one.stages_p99_ms.get("append", one.state.put_p99_ms)),
    ("Wait for a turn, 99 % at most", "ms", lambda one: one.stages_p99_ms.get("queue")),
    ("Time to answer the console", "ms", lambda one: one.answer_ms),
    ("Disk used", "%", lambda one: one.state.disk_used_percent),
)


class ClusterHistory:
    """The samples of the last hour, of a bounded number of brokers."""

    def __init__(self) -> None:
        self._samples: deque[ClusterSample] = deque(maxlen=SAMPLES_MAX)
        self._stages: dict[str, deque[Mapping[str, StageDurations]]] = {}  # address -> what it told in the last minute

    def add(self, sample: ClusterSample) -> None:
        """Keep a sample. The durations of stages are kept for a minute; of the hour, there is one figure for each."""
        brokers = sample.brokers[:BROKERS_SAMPLED_MAX]
        self._stages = {one.state.address: self._add_stages(one.state) for one in brokers}
        slim = (
            one._replace(state=msgspec.structs.replace(one.state, stages={}), stages_p99_ms=self._last_p99_ms(one.state))
            for one in brokers
        )
        self._samples.append(sample._replace(brokers=tuple(slim)))

    @property
    def last(self) -> ClusterSample | None:
        return self._samples[-1] if self._samples else None

    def charts(self) -> list[LineChart]:
        """Return the charts. A broker that did not answer has a gap: it has no point at that moment."""
        return [LineChart(title, self._series(figure), unit) for title, unit, figure in CHARTS]

    def stages(self, address: str) -> list[StageRow]:
        """Return the stages of a broker; none of Apache's, and of one that has not been asked yet."""
        told = self._stages.get(address)
        if not told or not told[-1]:
            return []
        return [StageRow(stage, whole.since(told[0].get(stage, StageDurations())), whole) for stage, whole in told[-1].items()]

    def stage_chart(self, address: str) -> LineChart:
        """Return the last hour of one broker, with a line for each stage."""
        points: dict[str, list[tuple[float, float]]] = {}
        for sample in self._samples:
            for broker in sample.brokers:
                if broker.state.address == address:
                    for stage, p99_ms in broker.stages_p99_ms.items():
                        points.setdefault(stage, []).append((float(sample.at_ms), p99_ms))
        return LineChart("Stages, 99 % at most", [LineSeries(stage, points[stage]) for stage in points], "ms")

    def _add_stages(self, state: BrokerState) -> deque[Mapping[str, StageDurations]]:
        told = self._stages.get(state.address) or deque(maxlen=STAGE_WINDOW_SAMPLES + 1)
        if not state.error:
            told.append(state.stages)
        return told

    def _last_p99_ms(self, state: BrokerState) -> dict[str, float]:
        told = self._stages[state.address]
        if state.error or len(told) < 2:
            return {}
        found = {stage: now.since(told[-2].get(stage, StageDurations())).quantile_ms(P99) for stage, now in told[-1].items()}
        longest_ms = max((bound for now in told[-1].values() for bound in now.bounds_ms), default=0.0)
        return {
            stage: min(value, longest_ms) if value == math.inf else value for stage, value in found.items() if value is not None
        }

    def _series(self, figure: Figure) -> Sequence[LineSeries]:
        points: dict[str, list[tuple[float, float]]] = {}
        for sample in self._samples:
            for broker in sample.brokers:
                if not broker.state.error and (value := figure(broker)) is not None:
                    points.setdefault(broker.name, []).append((float(sample.at_ms), value))
        return [LineSeries(name, points[name]) for name in sorted(points)]

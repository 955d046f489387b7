"""What the brokers told over the last hour, for the charts of the overview. Pure: samples in, series out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skyrocket.client.admin import BrokerState
from skyrocket.console.limits import BROKERS_SAMPLED_MAX, SAMPLES_MAX
from skyrocket.report.parts import LineChart, LineSeries


class BrokerSample(NamedTuple):
    """A broker at one moment, and how long it took to answer."""

    state: BrokerState
    answer_ms: float

    @property
    def name(self) -> str:
        """The name of its line in a chart: slaves of a broker have their numbers."""
        return self.state.broker_name if self.state.is_master else f"{self.state.broker_name} ({self.state.broker_id})"


class ClusterSample(NamedTuple):
    """All brokers at one moment. `error` says why there are none."""

    at_ms: int
    brokers: tuple[BrokerSample, ...]
    error: str = ""


Figure = Callable[[BrokerSample], float]

CHARTS: Final[tuple[tuple[str, str, Figure], ...]] = (
    ("Messages in", "messages/s", lambda one: one.state.put_rate),
    ("Messages out", "messages/s", lambda one: one.state.get_rate),
    ("Time to answer", "ms", lambda one: one.answer_ms),
    ("Disk used", "%", lambda one: one.state.disk_used_percent),
)


class ClusterHistory:
    """The samples of the last hour, of a bounded number of brokers."""

    def __init__(self) -> None:
        self._samples: deque[ClusterSample] = deque(maxlen=SAMPLES_MAX)

    def add(self, sample: ClusterSample) -> None:
        self._samples.append(sample._replace(brokers=sample.brokers[:BROKERS_SAMPLED_MAX]))

    @property
    def last(self) -> ClusterSample | None:
        return self._samples[-1] if self._samples else None

    def charts(self) -> list[LineChart]:
        """Return the charts. A broker that did not answer has a gap: it has no point at that moment."""
        return [LineChart(title, self._series(figure), unit) for title, unit, figure in CHARTS]

    def _series(self, figure: Figure) -> Sequence[LineSeries]:
        points: dict[str, list[tuple[float, float]]] = {}
        for sample in self._samples:
            for broker in sample.brokers:
                if not broker.state.error:
                    points.setdefault(broker.name, []).append((float(sample.at_ms), figure(broker)))
        return [LineSeries(name, points[name]) for name in sorted(points)]

"""Prometheus's text format, version 0.0.4: how a metric is written.

    # HELP rocketmq_topic_number Topics of the broker.
    # TYPE rocketmq_topic_number gauge
    rocketmq_topic_number{cluster="DefaultCluster",node_id="broker-a"} 12

A histogram is one line for each bound (`_bucket`, cumulative, with the label `le`), then `_count` and `_sum`. The writer is
ours: prometheus-client builds an object and a dictionary for each line, and `docs/metrics.md` has what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from skyrocket.metrics.family import Family, LabelValues
from skyrocket.metrics.histogram import HistogramState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def escape_label(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def format_number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


class ExpositionWriter:
    """Writes the lines of metrics. Every line has the labels of the server, too."""

    def __init__(self, server_labels: Mapping[str, str]) -> None:
        self._of_server = ",".join(f'{name}="{escape_label(value)}"' for name, value in server_labels.items())

    def head(self, family: Family) -> str:
        note = family.note.replace("\\", "\\\\").replace("\n", "\\n")
        return f"# HELP {family.name} {note}\n# TYPE {family.name} {family.kind}\n"

    def row(self, family: Family, values: LabelValues, value: float | HistogramState) -> str:
        labels = self._labels(family, values)
        if isinstance(value, HistogramState):
            return _histogram_lines(family.name, labels, value)
        return f"{family.name}{{{labels}}} {format_number(value)}\n" if labels else f"{family.name} {format_number(value)}\n"

    def _labels(self, family: Family, values: LabelValues) -> str:
        own = ",".join([f'{name}="{escape_label(value)}"' for name, value in zip(family.labels, values, strict=True)])
        return f"{self._of_server},{own}" if own and self._of_server else own or self._of_server


def _histogram_lines(name: str, labels: str, state: HistogramState) -> str:
    before = f"{labels}," if labels else ""
    braces = f"{{{labels}}}" if labels else ""
    bounds = [*map(repr, map(float, state.bounds)), "+Inf"]
    lines = [f'{name}_bucket{{{before}le="{bound}"}} {count}\n' for bound, count in zip(bounds, state.counts, strict=True)]
    lines.append(f"{name}_count{braces} {state.counts[-1]}\n{name}_sum{braces} {format_number(state.total)}\n")
    return "".join(lines)

"""All clusters of the console, one row each, from what their samplers know: no cluster is asked, so none delays the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from skyrocket.console.attention import find_attention
from skyrocket.console.clusters import ServedCluster
from skyrocket.console.pages.overview import sum_states
from skyrocket.console.visit import Answer, Page
from skyrocket.report.parts import Severity


class ClusterRow(NamedTuple):
    """A cluster in the list. `error` says why nothing is known of it."""

    name: str
    base: str
    sampled_ms: int = 0  # 0: not yet
    error: str = ""
    totals: Mapping[str, float] = MappingProxyType({})
    problems: int = 0
    lag: int | None = None  # of the group that is furthest behind, when somebody looked last; None: nobody did


def show_clusters(clusters: Sequence[ServedCluster]) -> Answer:
    return Page("clusters.html", "Clusters", {"rows": [describe_cluster(one) for one in clusters]})


def describe_cluster(cluster: ServedCluster) -> ClusterRow:
    """Say what the last sample of a cluster tells."""
    row = ClusterRow(cluster.name, cluster.base, error=cluster.error)
    sample = cluster.clients.history.last if cluster.clients else None
    if cluster.clients is None or sample is None:
        return row
    if sample.error:
        return row._replace(sampled_ms=sample.at_ms, error=sample.error)
    states = [one.state for one in sample.brokers]
    swept = cluster.clients.lags.found
    return row._replace(
        sampled_ms=sample.at_ms,
        totals=sum_states(states),
        problems=sum(one.severity is Severity.PROBLEM for one in find_attention(states)),
        lag=None if swept is None or swept.error else max((one.lag for one in swept.rows), default=0),
    )

"""Asks the cluster about a stream's queues at one trigger: which queues exist now, and which offsets they hold.

fetch_snapshot(options, cluster, positions)     the queues whose broker answers, and the reason for each other queue
fetch_full_snapshot(options, cluster)           all queues, or UnreachableClusterError after `retryTimeout`
queue_selector(options)                         returns a function: whether the options select a queue
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.cluster.resolution import matching_topics
from skyrocket.spark.options.offset_spec import is_named
from skyrocket.spark.options.source_options import SourceOptions
from skyrocket.spark.source.trigger import ClusterSnapshot, ReadableBounds


def queue_selector(options: SourceOptions) -> Callable[[Queue], bool]:
    if options.pattern is not None:
        pattern = re.compile(options.pattern)
        return lambda queue: pattern.fullmatch(queue.topic) is not None
    keys = dict(options.assigned)
    if keys:
        return lambda queue: is_named(queue, keys.get(queue.topic, ()))
    return lambda queue: queue.topic in options.topics


def existing_queues(options: SourceOptions, cluster: ClusterClient) -> list[Queue]:
    """Return the selected queues that exist now. A topic that does not exist has none; here that is no error."""
    if options.pattern is not None:
        topics = matching_topics(options.pattern, cluster.topics())
    else:
        topics = list(options.topics or dict(options.assigned))
    is_selected = queue_selector(options)
    return [queue for queues in cluster.queues(topics).values() for queue in queues if is_selected(queue)]


def fetch_snapshot(options: SourceOptions, cluster: ClusterClient, positions: Mapping[Queue, int]) -> ClusterSnapshot:
    """Ask each broker once. `positions` are the stream's offsets: a queue without new messages needs no first offset."""
    queues = existing_queues(options, cluster)
    lasts = cluster.last_offsets(queues, partial=True)
    firsts = cluster.first_offsets((queue for queue, last in lasts.items() if positions.get(queue) != last), partial=True)
    bounds = {
        queue: ReadableBounds(firsts.get(queue, last), last)
        for queue, last in lasts.items()
        if queue in firsts or positions.get(queue) == last
    }
    silent = {queue: f"Broker {queue.broker_name} does not answer." for queue in queues if queue not in bounds}
    return ClusterSnapshot(bounds, silent, cluster.brokers_without_master({queue.broker_name for queue in bounds}))


def fetch_full_snapshot(options: SourceOptions, cluster: ClusterClient) -> ClusterSnapshot:
    """Ask until every broker has answered."""
    queues = existing_queues(options, cluster)
    firsts, lasts = cluster.first_offsets(queues), cluster.last_offsets(queues)
    bounds = {queue: ReadableBounds(firsts[queue], lasts[queue]) for queue in queues}
    return ClusterSnapshot(bounds, slaves=cluster.brokers_without_master({queue.broker_name for queue in queues}))

"""The cluster, looked at for one trigger of a stream: which queues there are by now, and from where to where they go.

survey(options, cluster, stands)     what answers; a broker that does not is left out, and why
whole_survey(options, cluster)       all of it, or UnreachableClusterError after `retryTimeout`
asks_for(options)                    tells of a queue whether the options ask for it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster import Cluster
from skyrocket.spark.cluster.resolution import matching_topics
from skyrocket.spark.options.offset_spec import named
from skyrocket.spark.options.source_options import SourceOptions
from skyrocket.spark.source.trigger import Bounds, Survey


def asks_for(options: SourceOptions) -> Callable[[Queue], bool]:
    if options.pattern is not None:
        pattern = re.compile(options.pattern)
        return lambda queue: pattern.fullmatch(queue.topic) is not None
    keys = dict(options.assigned)
    if keys:
        return lambda queue: named(queue, keys.get(queue.topic, ()))
    return lambda queue: queue.topic in options.topics


def asked_queues(options: SourceOptions, cluster: Cluster) -> list[Queue]:
    """Those that the nameservers know now. A topic that is not there has none: whether that is an error is for others to say."""
    if options.pattern is not None:
        topics = matching_topics(options.pattern, cluster.topics())
    else:
        topics = list(options.topics or dict(options.assigned))
    wanted = asks_for(options)
    return [queue for queues in cluster.queues(topics).values() for queue in queues if wanted(queue)]


def survey(options: SourceOptions, cluster: Cluster, stands: Mapping[Queue, int]) -> Survey:
    """`stands`: where the stream is. Of a queue that has nothing new its first offset is not asked."""
    queues = asked_queues(options, cluster)
    lasts = cluster.last(queues, some=True)
    firsts = cluster.first((queue for queue, last in lasts.items() if stands.get(queue) != last), some=True)
    bounds = {
        queue: Bounds(firsts.get(queue, last), last)
        for queue, last in lasts.items()
        if queue in firsts or stands.get(queue) == last
    }
    silent = {queue: f"Broker {queue.broker_name} does not answer." for queue in queues if queue not in bounds}
    return Survey(bounds, silent, cluster.without_master({queue.broker_name for queue in bounds}))


def whole_survey(options: SourceOptions, cluster: Cluster) -> Survey:
    queues = asked_queues(options, cluster)
    firsts, lasts = cluster.first(queues), cluster.last(queues)
    bounds = {queue: Bounds(firsts[queue], lasts[queue]) for queue in queues}
    return Survey(bounds, slaves=cluster.without_master({queue.broker_name for queue in queues}))

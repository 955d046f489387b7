"""The offsets of a consumer group at the brokers, moved along with the batches of a stream: option `commitGroup`.

They are for whoever looks at the group's lag, or takes over from the query with a consumer. The query itself never reads them:
where it is, its checkpoint knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster import Cluster
from skyrocket.spark.errors import OptionError, RefusedError


class GroupCommits:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._told: dict[Queue, int] = {}

    def follow(self, done: Mapping[Queue, int]) -> None:
        """`done`: all before is done. Brokers that do not answer now are told with the next batch."""
        news = {queue: offset for queue, offset in done.items() if self._told.get(queue) != offset}
        try:
            told = self._cluster.commit(self._group, news, some=True)
        except RefusedError:  # most likely the group is new there
            self._cluster.introduce(self._group, news)
            try:
                told = self._cluster.commit(self._group, news, some=True)
            except RefusedError as error:
                raise OptionError(f"Option 'commitGroup': the offsets of group '{self._group}' cannot be set: {error}") from error
        self._told.update({queue: news[queue] for queue in told})

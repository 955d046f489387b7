"""Commits a stream's progress as the offsets of a consumer group: option `commitGroup`.

Tools that watch groups then see the query's lag, and a consumer of the group can take over from the query. The query never
reads these offsets: its own position is in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.errors import OptionError, RequestRefusedError


class GroupCommits:
    def __init__(self, cluster: ClusterClient, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._committed: dict[Queue, int] = {}

    def commit(self, finished: Mapping[Queue, int]) -> None:
        """Commit the offsets that finished batches have reached. A broker that does not answer gets them with the next batch."""
        changed = {queue: offset for queue, offset in finished.items() if self._committed.get(queue) != offset}
        try:
            taken = self._cluster.commit_offsets(self._group, changed, partial=True)
        except RequestRefusedError:  # most likely the group is new to the broker
            self._cluster.register_group(self._group, changed)
            try:
                taken = self._cluster.commit_offsets(self._group, changed, partial=True)
            except RequestRefusedError as error:
                raise OptionError(
                    f"Option 'commitGroup' is '{self._group}', but a broker refuses offsets of this group: {error}"
                ) from error
        self._committed.update({queue: changed[queue] for queue in taken})

"""The sequence stamp: a producer's id and the message's sequence number within its queue, for loss detection. Pure.

A stamped message has two more properties: SR_PID, the producer's id, new with each start, and SR_SEQ, which counts from 1 in each
queue. To a consumer, 1, 2, 4 means that 3 is missing; 4, 4 is a repeat; 4, 3 is out of order. A message gets its number when it
is written to a connection, and the number of a failed attempt is not used again. So a gap can also be a message whose sender got
a SendFailedError, or that went to another queue after the failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from skyrocket.client.queues import Queue

PRODUCER_ID: Final = "SR_PID"
SEQUENCE: Final = "SR_SEQ"

_QUEUES_MAX = 100_000  # whose counts are kept; beyond, the count of the least recently used queue starts again at 1


class StampCounts(NamedTuple):
    """How far a producer with `stamp=True` has counted: what an audit compares with what brokers have."""

    producer_id: str
    last: dict[Queue, int]  # the number of the last message to each queue, acknowledged or not


class SequenceStamps:
    """Counts one producer's messages in each queue."""

    def __init__(self, producer_id: str) -> None:
        self.producer_id = producer_id
        self._counts: dict[Queue, int] = {}

    @property
    def counts(self) -> dict[Queue, int]:
        """The number of the last message in each queue, acknowledged or not."""
        return dict(self._counts)

    def next(self, queue: Queue) -> Mapping[str, str]:
        """Return the two properties for the next message to this queue."""
        count = self._counts.pop(queue, 0) + 1
        self._counts[queue] = count
        if len(self._counts) > _QUEUES_MAX:
            del self._counts[next(iter(self._counts))]
        return {PRODUCER_ID: self.producer_id, SEQUENCE: str(count)}

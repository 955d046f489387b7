"""The sequence stamp: which producer sent a message, and as its how-manieth to that queue. A loss audit reads it. Pure.

A stamped message has two more properties: SR_PID, the producer's id, new with each start, and SR_SEQ, which counts from 1 in each
queue. A consumer who sees 1, 2, 4 knows that 3 is missing; 4, 4 is a repeat; 4, 3 is out of order. Numbers are given when a
message is written to a connection; one whose attempt failed is not used again, so that a gap can also be a message that its
producer was told about (SendFailedError), or that it then sent to another queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocket.client.queues import Queue

PRODUCER_ID: Final = "SR_PID"
SEQUENCE: Final = "SR_SEQ"

_QUEUES_MAX = 100_000  # counted; a producer that sends to more begins anew with the one not used for longest


class Sequences:
    def __init__(self, producer_id: str) -> None:
        self.producer_id = producer_id
        self._counts: dict[Queue, int] = {}

    def next(self, queue: Queue) -> Mapping[str, str]:
        """The stamp of the next message to this queue."""
        count = self._counts.pop(queue, 0) + 1
        self._counts[queue] = count
        if len(self._counts) > _QUEUES_MAX:
            del self._counts[next(iter(self._counts))]
        return {PRODUCER_ID: self.producer_id, SEQUENCE: str(count)}

"""Where pulls wait for messages: the table behind long polling.

    park(pull)                    a pull found nothing: keep it
    of_queues(grown)              the queues of these for which pulls wait
    take_ready(queue, end)        a queue has messages up to `end`: take the pulls that may find one
    take_expired(now_ms, most)    take pulls that have waited long enough
    waiting_pulls()               every pull; all are checked every few seconds, in case a wake-up was lost
    take(pull)                    take this pull, if it still waits
    drop_connection(connection)   a client disconnected: forget its pulls

A pull is either parked here or was taken once. The caller reads the queue for a pull that it took, and parks it again when
there is no message for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

PARKED_PULLS_MAX = 100_000  # in all queues; further pulls are answered at once

Request = TypeVar("Request")


@dataclass(eq=False, slots=True)
class WaitingPull(Generic[Request]):
    """A parked pull. Compared by identity (eq=False): two pulls with equal fields are two pulls."""

    request: Request  # what the caller needs to answer the pull
    connection: Hashable
    topic: str
    queue_id: int
    scanned_to: int  # messages before this offset were read and do not pass the pull's filter
    until_ms: int

    @property
    def queue(self) -> tuple[str, int]:
        return (self.topic, self.queue_id)


class LongPollingTable(Generic[Request]):
    def __init__(self, most: int = PARKED_PULLS_MAX) -> None:
        self._most = most
        self._by_queue: dict[tuple[str, int], set[WaitingPull[Request]]] = {}
        self._by_connection: dict[Hashable, set[WaitingPull[Request]]] = {}
        self._by_deadline: list[tuple[int, int, WaitingPull[Request]]] = []  # heap; may contain pulls that were taken
        self._count = 0
        self._ticket = 0

    def __len__(self) -> int:
        return self._count

    def park(self, pull: WaitingPull[Request]) -> bool:
        """Keep a pull until a message arrives or its time is up; return False when the table is full."""
        if self._count >= self._most:
            return False
        self._by_queue.setdefault(pull.queue, set()).add(pull)
        self._by_connection.setdefault(pull.connection, set()).add(pull)
        self._ticket += 1
        heapq.heappush(self._by_deadline, (pull.until_ms, self._ticket, pull))
        self._count += 1
        if len(self._by_deadline) > 2 * self._count + 1024:  # in busy queues most pulls are taken long before their time is up
            self._by_deadline = [entry for entry in self._by_deadline if self._contains(entry[2])]
            heapq.heapify(self._by_deadline)
        return True

    def of_queues(self, queues: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return those of the queues for which pulls wait. A turn may bring messages for thousands that nobody waits for."""
        waiting = self._by_queue
        return [queue for queue in queues if queue in waiting] if waiting else []

    def take_ready(self, topic: str, queue_id: int, end: int) -> list[WaitingPull[Request]]:
        """Take the pulls of a queue that have not read up to `end`. Called once a queue and turn, not once a message."""
        waiting = self._by_queue.get((topic, queue_id))
        if not waiting:
            return []
        ready = [pull for pull in waiting if pull.scanned_to < end]
        for pull in ready:
            self._forget(pull)
        return ready

    def take_expired(self, now_ms: int, most: int) -> list[WaitingPull[Request]]:
        late: list[WaitingPull[Request]] = []
        while self._by_deadline and self._by_deadline[0][0] <= now_ms and len(late) < most:
            pull = heapq.heappop(self._by_deadline)[2]
            if self._contains(pull):
                self._forget(pull)
                late.append(pull)
        return late

    def waiting_pulls(self) -> list[WaitingPull[Request]]:
        return [pull for pulls in self._by_queue.values() for pull in pulls]

    def take(self, pull: WaitingPull[Request]) -> bool:
        """Take a pull. Return False when it was taken before."""
        if not self._contains(pull):
            return False
        self._forget(pull)
        return True

    def drop_connection(self, connection: Hashable) -> int:
        """Forget the pulls of a connection; return how many."""
        pulls = list(self._by_connection.get(connection, ()))
        for pull in pulls:
            self._forget(pull)
        return len(pulls)

    def _contains(self, pull: WaitingPull[Request]) -> bool:
        return pull in self._by_queue.get(pull.queue, ())

    def _forget(self, pull: WaitingPull[Request]) -> None:
        of_queue = self._by_queue[pull.queue]
        of_queue.discard(pull)
        if not of_queue:
            del self._by_queue[pull.queue]
        of_connection = self._by_connection[pull.connection]
        of_connection.discard(pull)
        if not of_connection:
            del self._by_connection[pull.connection]
        self._count -= 1

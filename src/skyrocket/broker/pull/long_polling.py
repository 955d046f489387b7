"""Pulls that wait for a message: the table behind long polling.

    park(pull)                    a pull found nothing: keep it
    grew(queue, end)              a queue has messages up to `end` now: which pulls may find something?
    due(now_ms)                   time has passed: which pulls have waited long enough?
    take_all()                    which pulls wait? (they are looked at again every few seconds, whatever happened)
    dropped(connection)           a client went away: forget its pulls

A pull is parked, or it was returned by `grew`, `due` or `take_all`, once. The caller looks whether there is something for it, and
parks it again if there is not.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

PARKED_PULLS_MAX = 100_000  # across all queues; beyond it a pull is answered at once instead of held

Request = TypeVar("Request")


@dataclass(eq=False, slots=True)
class WaitingPull(Generic[Request]):
    """eq=False: two that look alike are still two."""

    request: Request  # whatever the caller needs to answer it
    connection: Hashable
    topic: str
    queue_id: int
    scanned_to: int  # everything before this offset was looked at, and is not for this pull
    until_ms: int

    @property
    def queue(self) -> tuple[str, int]:
        return (self.topic, self.queue_id)


class LongPollingTable(Generic[Request]):
    def __init__(self, most: int = PARKED_PULLS_MAX) -> None:
        self._most = most
        self._by_queue: dict[tuple[str, int], set[WaitingPull[Request]]] = {}
        self._by_connection: dict[Hashable, set[WaitingPull[Request]]] = {}
        self._by_deadline: list[tuple[int, int, WaitingPull[Request]]] = []  # heap; those that left are dropped lazily
        self._count = 0
        self._ticket = 0

    def __len__(self) -> int:
        return self._count

    def park(self, pull: WaitingPull[Request]) -> bool:
        """Keep it until there is something for it, or its time is up. False when there are too many."""
        if self._count >= self._most:
            return False
        self._by_queue.setdefault(pull.queue, set()).add(pull)
        self._by_connection.setdefault(pull.connection, set()).add(pull)
        self._ticket += 1
        heapq.heappush(self._by_deadline, (pull.until_ms, self._ticket, pull))
        self._count += 1
        if len(self._by_deadline) > 2 * self._count + 1024:  # busy queues answer most pulls long before their time is up
            self._by_deadline = [entry for entry in self._by_deadline if self._contains(entry[2])]
            heapq.heapify(self._by_deadline)
        return True

    def take_ready(self, topic: str, queue_id: int, end: int) -> list[WaitingPull[Request]]:
        """Called once a turn for a queue, not once a message."""
        waiting = self._by_queue.get((topic, queue_id))
        if not waiting:
            return []
        ready = [pull for pull in waiting if pull.scanned_to < end]
        for pull in ready:
            self._forget(pull)
        return ready

    def take_expired(self, now_ms: int) -> list[WaitingPull[Request]]:
        late = []
        while self._by_deadline and self._by_deadline[0][0] <= now_ms:
            pull = heapq.heappop(self._by_deadline)[2]
            if self._contains(pull):
                self._forget(pull)
                late.append(pull)
        return late

    def next_due_ms(self) -> int | None:
        return self._by_deadline[0][0] if self._by_deadline else None

    def take_all(self) -> list[WaitingPull[Request]]:
        everything = [pull for pulls in self._by_queue.values() for pull in pulls]
        self._by_queue.clear()
        self._by_connection.clear()
        self._by_deadline.clear()
        self._count = 0
        return everything

    def drop_connection(self, connection: Hashable) -> int:
        """How many were forgotten."""
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

"""What must hold at every moment of a simulation.

`Checker` sees what nodes claim (a role, a commit index, a dispatched entry, an acknowledgement) and raises `ViolationError` when
two claims contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from skyrocket.protocol.bodies.dledger import DLedgerEntry


class ViolationError(AssertionError):
    """An invariant does not hold."""


class Message(NamedTuple):
    """What a simulated producer sends: the number of a message within its queue."""

    queue: int
    number: int

    def encode(self) -> bytes:
        return b"%d:%d" % (self.queue, self.number)


def body_of(entry: DLedgerEntry) -> bytes:
    return entry.body


class Checker:
    """The invariants over all nodes. With `strict` False, only those that hold with nodes that lose what they acknowledged.

    `message_of` says what a producer sent in an entry: `Message.encode`, or the text of a marker.
    """

    def __init__(self, *, strict: bool, message_of: Callable[[DLedgerEntry], bytes] = body_of) -> None:
        self.strict = strict
        self._message_of = message_of
        self._places: dict[bytes, int] = {}
        self.committed: list[DLedgerEntry] = []
        self.committed_by: list[int] = []
        """The term in which each entry was first claimed to be committed."""
        self.acknowledged: dict[bytes, int] = {}
        self._leaders: dict[int, tuple[str, int]] = {}
        self._shown: dict[tuple[str, int, int], bytes] = {}

    def elected(self, node: str, incarnation: int, term: int, log: Sequence[DLedgerEntry]) -> None:
        if not self.strict:
            return
        before = self._leaders.setdefault(term, (node, incarnation))
        if before != (node, incarnation):
            raise ViolationError(f"term {term} has two leaders: {before} and {(node, incarnation)}")
        own = list(log)
        for index, entry in enumerate(self.committed):
            if self.committed_by[index] < term and (index >= len(own) or not is_same(own[index], entry)):
                raise ViolationError(
                    f"{node} leads term {term} without entry {index}, committed in term {self.committed_by[index]}"
                )

    def commit(self, node: str, term: int, log: Sequence[DLedgerEntry], first: int, last: int) -> None:
        """A node says that its entries from `first` to `last` are committed."""
        if not self.strict:
            return
        for index in range(first, last + 1):
            if index < len(self.committed):
                if not is_same(self.committed[index], log[index]):
                    raise ViolationError(f"{node} commits another entry {index} than the one that was committed before")
            else:
                self.committed.append(log[index])
                self.committed_by.append(term)
                self._places.setdefault(self._message_of(log[index]), index)

    def dispatch(self, node: str, index: int, entry: DLedgerEntry) -> None:
        """A node shows an entry to consumers."""
        if self.strict and (index >= len(self.committed) or not is_same(self.committed[index], entry)):
            raise ViolationError(f"{node} shows entry {index} to consumers, which is not committed")

    def show(self, node: str, topic: str, queue: int, offset: int, message: bytes) -> None:
        """A consumer reads a message from a queue of a node."""
        if not self.strict:
            return
        if message not in self._places:
            raise ViolationError(f"{node} shows {message!r} to consumers at {topic}/{queue}/{offset}, which is not committed")
        before = self._shown.setdefault((topic, queue, offset), message)
        if before != message:
            raise ViolationError(f"{node} has {message!r} at {topic}/{queue}/{offset}, where {before!r} was read before")

    def keep_readable(self, node: str, readable: int, keep_index: int) -> None:
        """A node cuts its log. What it has shown stays, whatever its leader says."""
        if keep_index < readable:
            raise ViolationError(f"{node} cuts behind entry {keep_index}, but entries up to {readable} are committed")

    def acknowledge(self, body: bytes, index: int) -> None:
        if self.strict and (index >= len(self.committed) or self._message_of(self.committed[index]) != body):
            raise ViolationError(f"{body!r} is acknowledged at {index}, where another entry or none is committed")
        self.acknowledged[body] = index

    def match_logs(self, logs: dict[str, Sequence[DLedgerEntry]]) -> None:
        """Log matching: two logs with an entry of the same index and term are equal up to it."""
        if not self.strict:
            return
        names = sorted(logs)
        for place, left in enumerate(names):
            for right in names[place + 1 :]:
                one, two = logs[left], logs[right]
                for index in range(min(len(one), len(two)) - 1, -1, -1):
                    if one[index].term == two[index].term:
                        wrong = [at for at in range(index + 1) if not is_same(one[at], two[at])]
                        if wrong:
                            raise ViolationError(f"{left} and {right} agree at {index} but differ at {wrong[0]}")
                        break

    def end(self, logs: dict[str, Sequence[DLedgerEntry]]) -> None:
        """After healing: every acknowledged message is readable everywhere, once and in the order of its queue."""
        self.match_logs(logs)
        if not self.strict:
            return
        for node, log in logs.items():
            if len(log) < len(self.committed):
                raise ViolationError(f"{node} has {len(log)} of {len(self.committed)} committed entries")
        places: dict[bytes, int] = {}
        latest: dict[bytes, int] = {}
        for entry in self.committed:
            message = self._message_of(entry)
            if message.startswith(b"marker"):
                continue
            if message in places:
                raise ViolationError(f"{message!r} is committed twice")
            places[message] = entry.index
            queue, _, number = message.partition(b":")
            if int(number) <= latest.get(queue, -1):
                raise ViolationError(f"queue {queue!r} has {number!r} behind {latest[queue]}")
            latest[queue] = int(number)
        lost = [body for body, index in self.acknowledged.items() if places.get(body) != index]
        if lost:
            raise ViolationError(f"acknowledged and lost: {lost[:5]}")

    def messages_of(self, queue: int) -> list[bytes]:
        """Return the committed messages of a queue, in their order."""
        start = b"%d:" % queue
        return [message for message in map(self._message_of, self.committed) if message.startswith(start)]


def is_same(left: DLedgerEntry, right: DLedgerEntry) -> bool:
    return left is right or (left.index, left.term, left.pos, left.body) == (right.index, right.term, right.pos, right.body)

"""What must hold at every moment of a simulation.

`Checker` sees what nodes claim (a role, a commit index, a dispatched entry, an acknowledgement) and raises `ViolationError` when
two claims contradict each other.
"""

from __future__ import annotations

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


class Checker:
    """The invariants over all nodes. With `strict` False, only those that hold with nodes that lose what they acknowledged."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.committed: list[DLedgerEntry] = []
        self.committed_by: list[int] = []
        """The term in which each entry was first claimed to be committed."""
        self.acknowledged: dict[bytes, int] = {}
        self._leaders: dict[int, tuple[str, int]] = {}

    def elected(self, node: str, incarnation: int, term: int, log: list[DLedgerEntry]) -> None:
        if not self.strict:
            return
        before = self._leaders.setdefault(term, (node, incarnation))
        if before != (node, incarnation):
            raise ViolationError(f"term {term} has two leaders: {before} and {(node, incarnation)}")
        for index, entry in enumerate(self.committed):
            if self.committed_by[index] < term and (index >= len(log) or not is_same(log[index], entry)):
                raise ViolationError(
                    f"{node} leads term {term} without entry {index}, committed in term {self.committed_by[index]}"
                )

    def commit(self, node: str, term: int, log: list[DLedgerEntry], first: int, last: int) -> None:
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

    def dispatch(self, node: str, index: int, entry: DLedgerEntry) -> None:
        """A node shows an entry to consumers."""
        if self.strict and (index >= len(self.committed) or not is_same(self.committed[index], entry)):
            raise ViolationError(f"{node} shows entry {index} to consumers, which is not committed")

    def keep_readable(self, node: str, readable: int, keep_index: int) -> None:
        """A node cuts its log. What it has shown stays, whatever its leader says."""
        if keep_index < readable:
            raise ViolationError(f"{node} cuts behind entry {keep_index}, but entries up to {readable} are committed")

    def acknowledge(self, body: bytes, index: int) -> None:
        if self.strict and (index >= len(self.committed) or self.committed[index].body != body):
            raise ViolationError(f"{body!r} is acknowledged at {index}, where another entry or none is committed")
        self.acknowledged[body] = index

    def match_logs(self, logs: dict[str, list[DLedgerEntry]]) -> None:
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

    def end(self, logs: dict[str, list[DLedgerEntry]]) -> None:
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
            if entry.body.startswith(b"marker"):
                continue
            if entry.body in places:
                raise ViolationError(f"{entry.body!r} is committed twice")
            places[entry.body] = entry.index
            queue, _, number = entry.body.partition(b":")
            if int(number) <= latest.get(queue, -1):
                raise ViolationError(f"queue {queue!r} has {number!r} behind {latest[queue]}")
            latest[queue] = int(number)
        lost = [body for body, index in self.acknowledged.items() if places.get(body) != index]
        if lost:
            raise ViolationError(f"acknowledged and lost: {lost[:5]}")


def is_same(left: DLedgerEntry, right: DLedgerEntry) -> bool:
    return left is right or (left.index, left.term, left.pos, left.body) == (right.index, right.term, right.pos, right.body)

"""Decides which changes a table takes: the rules of both modes, for one batch. Pure.

    last-writer        the change with the highest version of its key wins
    expected-version   a change is applied when it has the next version of its key; others wait until the gap is filled

A table is a function of the set of changes, whatever their order, however often each comes, and however they are divided into
batches. Two different changes of one key with one version would break that. They are counted as conflicts, and the one with the
greater digest wins, always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

Mode = Literal["last-writer", "expected-version"]
LAST_WRITER: Final = "last-writer"
EXPECTED_VERSION: Final = "expected-version"
MODES: Final = (LAST_WRITER, EXPECTED_VERSION)


class Held(NamedTuple):
    """What a table has of a key. Compared as a pair: the greater one wins."""

    version: int
    digest: str


@dataclass
class Counts:
    """What became of changes. `applied` includes those that a later change of the same batch replaced."""

    applied: int = 0
    repeated: int = 0  # the table had exactly this change
    late: int = 0  # the table had a higher version
    conflicts: int = 0  # another change has the same key and version, and other content

    def add(self, other: Counts) -> None:
        self.applied += other.applied
        self.repeated += other.repeated
        self.late += other.late
        self.conflicts += other.conflicts


@dataclass
class TableChanges:
    """Row numbers of the changes that were given."""

    winners: list[int] = field(default_factory=list)  # to be written, one for each key
    waiting: list[int] = field(default_factory=list)  # new ones that have to wait
    settled: list[int] = field(default_factory=list)  # changes that waited, and wait no longer
    counts: Counts = field(default_factory=Counts)


class ChangeColumns(NamedTuple):
    """The changes of a batch. The first `waited` of them come from the table's waiting changes, the others are new."""

    keys: Sequence[str]
    versions: Sequence[int]
    digests: Sequence[str]
    waited: int = 0


def decide(mode: str, held: Mapping[str, Held], changes: ChangeColumns, first_version: int = 1) -> TableChanges:
    """Decide what a table takes. `held` has the keys of the batch that the table knows."""
    if mode == LAST_WRITER:
        return _decide_last_writer(held, changes)
    assert mode == EXPECTED_VERSION
    return _decide_expected(held, changes, first_version)


def _decide_last_writer(held: Mapping[str, Held], changes: ChangeColumns) -> TableChanges:
    decision, state = TableChanges(), dict(held)
    winners: dict[str, int] = {}
    counts = decision.counts
    for row, (key, version, digest) in enumerate(zip(changes.keys, changes.versions, changes.digests, strict=True)):
        now, change = state.get(key), Held(version, digest)
        if now == change:
            counts.repeated += 1
            continue
        if now is not None and now.version == version:
            counts.conflicts += 1
        if now is None or change > now:
            counts.applied += 1
            state[key], winners[key] = change, row
        else:
            counts.late += 1
    decision.winners = sorted(winners.values())
    return decision


def _decide_expected(held: Mapping[str, Held], changes: ChangeColumns, first_version: int) -> TableChanges:
    decision = TableChanges()
    by_key: dict[str, list[int]] = {}
    for row, key in enumerate(changes.keys):
        by_key.setdefault(key, []).append(row)
    for key, rows in by_key.items():
        _KeyChain(held.get(key), first_version, changes, decision).take(rows)
    decision.winners.sort()
    return decision


class _KeyChain:
    """The versions of one key: those that follow each other are applied, and those behind a gap wait."""

    def __init__(self, held: Held | None, first_version: int, changes: ChangeColumns, decision: TableChanges) -> None:
        self._now = held or Held(first_version - 1, "")
        self._is_known = held is not None
        self._changes = changes
        self._decision = decision
        self._counts = decision.counts
        self._ahead: dict[int, int] = {}  # version -> the row that wins it

    def take(self, rows: Sequence[int]) -> None:
        winner: int | None = None
        for row in rows:
            if self._take_row(row):
                winner = row
        version = self._now.version + 1
        while version in self._ahead:
            winner = self._ahead.pop(version)
            self._counts.applied += 1
            self._settle(winner)
            version += 1
        self._decision.waiting += [row for row in self._ahead.values() if row >= self._changes.waited]
        if winner is not None:
            self._decision.winners.append(winner)

    def _take_row(self, row: int) -> bool:
        """Put a change where it belongs. Return True if it replaces what the table has of the same version."""
        change = Held(self._changes.versions[row], self._changes.digests[row])
        if change.version > self._now.version:
            self._put_ahead(row, change)
            return False
        self._settle(row)
        if change == self._now:
            self._counts.repeated += 1
            return False
        is_conflict = self._is_known and change.version == self._now.version
        self._counts.conflicts += is_conflict
        if is_conflict and change > self._now:
            self._counts.applied += 1
            self._now = change
            return True
        self._counts.late += 1
        return False

    def _put_ahead(self, row: int, change: Held) -> None:
        other = self._ahead.setdefault(change.version, row)
        if other == row:
            return
        before = self._changes.digests[other]
        if before == change.digest:
            self._counts.repeated += 1
            self._settle(row)
            return
        self._counts.conflicts += 1
        loser = row
        if change.digest > before:
            self._ahead[change.version], loser = row, other
        self._counts.late += 1
        self._settle(loser)

    def _settle(self, row: int) -> None:
        if row < self._changes.waited:
            self._decision.settled.append(row)

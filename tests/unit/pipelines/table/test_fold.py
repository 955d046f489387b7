"""`fold`: a table is a function of the set of changes, in both modes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocket.pipelines.table.fold import EXPECTED_VERSION, LAST_WRITER, MODES, ChangeColumns, Counts, Held, decide
from tests.support.pipelines.change_histories import Change, histories, reference_fold, reference_waiting


def plain_digest(change: Change) -> str:
    return "~" if change.name is None else change.name


class Table:
    """A table in memory: what a target does with decisions."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.rows: dict[str, Change] = {}
        self.waiting: dict[tuple[str, int], Change] = {}
        self.counts = Counts()

    def take(self, batch: list[Change]) -> None:
        keys = {change.key for change in batch}
        waited = [change for change in self.waiting.values() if change.key in keys]
        changes = [*waited, *batch]
        columns = ChangeColumns(
            [change.key for change in changes],
            [change.version for change in changes],
            [plain_digest(change) for change in changes],
            len(waited),
        )
        held = {key: Held(row.version, plain_digest(row)) for key, row in self.rows.items() if key in keys}
        decision = decide(self.mode, held, columns)
        assert len({changes[row].key for row in decision.winners}) == len(decision.winners), "one row for each key"
        for row in decision.winners:
            self.rows[changes[row].key] = changes[row]
        for row in decision.settled:
            assert row < len(waited)
            del self.waiting[changes[row].key, changes[row].version]
        for row in decision.waiting:
            assert row >= len(waited)
            self.waiting[changes[row].key, changes[row].version] = changes[row]
        self.counts.add(decision.counts)

    @property
    def state(self) -> dict[str, tuple[int, str | None]]:
        return {key: (row.version, row.name) for key, row in self.rows.items()}


@st.composite
def divided(draw: Any) -> tuple[list[Change], list[list[Change]]]:
    """A history, and the same in another order, with repetitions, divided into batches."""
    history = draw(histories)
    repeated = [*history, *draw(st.lists(st.sampled_from(history), max_size=10))] if history else []
    order = draw(st.permutations(repeated))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=6)))
    edges = [0, *cuts, len(order)]
    return history, [order[start:stop] for start, stop in pairwise(edges)]


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=300, deadline=None)
@given(drawn=divided())
def test_any_order_repetition_and_division_gives_the_table_of_the_reference(mode: str, drawn: Any):
    history, batches = drawn
    table = Table(mode)
    for batch in batches:
        table.take(batch)
    assert table.state == reference_fold(history, mode, plain_digest)
    assert set(table.waiting) == (reference_waiting(history) if mode == EXPECTED_VERSION else set())


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=100, deadline=None)
@given(history=histories)
def test_a_history_that_comes_again_changes_nothing(mode: str, history: list[Change]):
    table = Table(mode)
    table.take(history)
    before, waiting, applied = dict(table.rows), dict(table.waiting), table.counts.applied
    table.take(history)
    assert (table.rows, table.waiting, table.counts.applied) == (before, waiting, applied)


@settings(max_examples=100, deadline=None)
@given(history=histories)
def test_every_change_is_counted_once(history: list[Change]):
    table = Table(LAST_WRITER)
    table.take(history)
    counts = table.counts
    assert counts.applied + counts.repeated + counts.late == len(history)
    several = Counter((change.key, change.version) for change in set(history))
    assert (counts.conflicts > 0) <= (max(several.values(), default=0) > 1)


def test_a_gap_waits_and_is_filled_at_once():
    table = Table(EXPECTED_VERSION)
    table.take([Change("a", 3, "x"), Change("a", 1, "x"), Change("a", 4, None)])
    assert (table.state, sorted(table.waiting)) == ({"a": (1, "x")}, [("a", 3), ("a", 4)])
    table.take([Change("a", 2, "y")])
    assert (table.state, table.waiting) == ({"a": (4, None)}, {})
    assert table.counts == Counts(applied=4)


def test_a_deleted_key_comes_back_with_a_higher_version_only():
    table = Table(LAST_WRITER)
    table.take([Change("a", 5, None)])
    table.take([Change("a", 4, "late")])
    assert table.state == {"a": (5, None)}
    table.take([Change("a", 6, "again")])
    assert table.state == {"a": (6, "again")}
    assert table.counts == Counts(applied=2, late=1)


def test_two_changes_with_one_version_are_a_conflict_and_the_greater_digest_wins():
    for order in (["x", "y"], ["y", "x"]):
        table = Table(LAST_WRITER)
        for name in order:
            table.take([Change("a", 1, name)])
        assert (table.state, table.counts.conflicts) == ({"a": (1, "y")}, 1)

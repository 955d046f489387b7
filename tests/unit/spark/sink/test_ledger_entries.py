"""The state of a query by its ledger entries, and the next step of a commit."""

from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.spark.sink import ledger_entries as module
from skyrocket.spark.sink.commit import CommitStep, next_step
from skyrocket.spark.sink.fence import NO_FENCE
from skyrocket.spark.sink.handles import HandleList
from skyrocket.spark.sink.ledger_entries import (
    BatchCommitted,
    BatchCommitting,
    LedgerEntry,
    LedgerError,
    LedgerReading,
    LedgerState,
    NoBatch,
    QueryLedger,
    combine_readings,
    committed_entry,
    committing_entries,
    entry_properties,
    ledger_tag,
    opened_entry,
    parse_entry,
)

QUEUE = Queue("t", "a", 1)


def committing(batch_id: int = 4, rows: int = 3) -> BatchCommitting:
    found = HandleList()
    for row in range(rows):
        found.add(row, row * 997, row * row)
    return BatchCommitting(batch_id, {QUEUE: 17}, [found.handles(QUEUE, "P")])


def reading_of(entries: list[LedgerEntry]) -> LedgerReading:
    """Return what entries in the order of the queue amount to."""
    reading = LedgerReading()
    for entry in entries[::-1]:
        reading.add(entry)
    return reading


def state_of(entries: list[LedgerEntry]) -> LedgerState:
    """Return the state after all entries were read."""
    reading = reading_of(entries)
    reading.check_complete()
    return reading.state


def test_entry_is_equal_after_a_round_trip():
    fence = NO_FENCE.next("a run").next("another")
    begun = committing_entries("q 1", committing(), "mark", fence)
    for entry in (opened_entry("q 1", fence), *begun, committed_entry("q 1", 3, fence), committed_entry("q 1", 3)):
        assert parse_entry(entry_properties(entry, "ID"), entry.body) == entry


def test_other_messages_are_not_entries():
    good = entry_properties(committed_entry("q", 3), "ID")
    assert parse_entry({}, b"x") is None
    assert parse_entry({**good, "SR_BATCH": "three"}, b"x") is None
    assert parse_entry({**good, "SR_STATE": "thinking"}, b"x") is None
    assert parse_entry({**good, "SR_EPOCH": "modern"}, b"x") is None


def test_each_query_has_its_own_tag():
    assert ledger_tag("one") != ledger_tag("another")
    assert entry_properties(committed_entry("one", 0), "ID")["TAGS"] == ledger_tag("one")


def test_without_entries_there_is_no_batch():
    assert state_of([]) == NoBatch()
    assert not reading_of([]).is_conclusive
    assert combine_readings([]) == QueryLedger(NoBatch(), NO_FENCE)


def test_last_entry_counts():
    begun = committing_entries("q", committing(4), "m")
    done = committed_entry("q", 4)
    assert state_of([committed_entry("q", 3), *begun, done]) == BatchCommitted(4)
    last = state_of([committed_entry("q", 3), *begun])
    assert isinstance(last, BatchCommitting)
    assert (last.batch_id, dict(last.starts)) == (4, {QUEUE: 17})
    assert last.handles[0].half_offsets.tolist() == [0, 1, 4]


def test_entry_in_parts_counts_once_its_last_part_exists(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PART_BYTES_MAX", 30)
    parts = committing_entries("q", committing(4, rows=50), "m")
    assert len(parts) > 3
    before = committed_entry("q", 3)
    for there in range(len(parts)):
        assert state_of([before, *parts[:there]]) == BatchCommitted(3), f"{there} of {len(parts)} parts"
    whole = state_of([before, *parts])
    assert isinstance(whole, BatchCommitting)
    assert whole.handles[0].rows.tolist() == list(range(50))


def test_missing_parts_are_read_and_repeated_parts_do_no_harm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PART_BYTES_MAX", 30)
    parts = committing_entries("q", committing(4, rows=50), "m")
    assert not reading_of(parts[2:]).is_conclusive
    assert not reading_of([committed_entry("q", 3), *parts[2:]]).is_conclusive
    assert isinstance(state_of([*parts[:2], parts[1], *parts[2:], parts[-1]]), BatchCommitting)


def test_interrupted_entry_does_not_mix_with_the_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PART_BYTES_MAX", 30)
    broken, whole = (committing_entries("q", committing(4, rows), mark) for rows, mark in ((50, "m"), (20, "n")))
    last = state_of([*broken[:-1], *whole])
    assert isinstance(last, BatchCommitting)
    assert last.handles[0].rows.tolist() == list(range(20))


def test_lost_part_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PART_BYTES_MAX", 30)
    parts = committing_entries("q", committing(4, rows=50), "m")
    with pytest.raises(LedgerError, match="lost a part"):
        state_of(parts[1:])


def test_damaged_handles_are_an_error():
    (entry,) = committing_entries("q", committing(), "m")
    with pytest.raises(LedgerError, match="cannot be decoded"):
        state_of([entry._replace(body=b"what?")])


def test_highest_batch_counts_wherever_it_is():
    begun = committing_entries("q", committing(4), "m")
    assert state_of([committed_entry("q", 4), *committing_entries("q", committing(4), "late")]) == BatchCommitted(4)
    assert state_of([committed_entry("q", 4), committed_entry("q", 3)]) == BatchCommitted(4)
    late = state_of([*begun, committed_entry("q", 3)])
    assert isinstance(late, BatchCommitting)
    assert late.batch_id == 4


def test_batch_of_the_later_driver_counts():
    old, new = NO_FENCE.next("old"), NO_FENCE.next("old").next("new")
    mine, theirs = (committing_entries("q", committing(4, rows), "m", fence) for rows, fence in ((2, new), (3, old)))
    for entries in ([*mine, *theirs], [*theirs, *mine]):
        state = state_of(entries)
        assert isinstance(state, BatchCommitting)
        assert state.handles[0].rows.tolist() == [0, 1]


def test_last_of_two_entries_of_one_driver_counts():
    """A driver writes the second one when it replaces half messages that no longer exist."""
    first, second = (committing_entries("q", committing(4, rows), mark) for rows, mark in ((3, "m"), (2, "n")))
    state = state_of([*first, *second])
    assert isinstance(state, BatchCommitting)
    assert state.handles[0].rows.tolist() == [0, 1]


def test_queues_of_the_ledger_are_combined():
    fence = NO_FENCE.next("a").next("b")
    readings = [reading_of([committed_entry("q", 3), opened_entry("q", fence)]), reading_of([committed_entry("q", 5)])]
    assert combine_readings(readings) == QueryLedger(BatchCommitted(5), fence)


@pytest.mark.parametrize(
    ("state", "batch_id", "step"),
    [
        (NoBatch(), 0, CommitStep.BEGIN),
        (NoBatch(), 7, CommitStep.BEGIN),
        (BatchCommitted(3), 4, CommitStep.BEGIN),
        (BatchCommitted(4), 4, CommitStep.ALREADY_COMMITTED),
        (BatchCommitted(5), 4, CommitStep.ALREADY_COMMITTED),
        (committing(4), 4, CommitStep.FINISH),
        (committing(3), 4, CommitStep.FINISH_EARLIER),
        (committing(5), 4, CommitStep.ALREADY_COMMITTED),
    ],
)
def test_next_step_of_a_commit_depends_on_the_ledger(state: LedgerState, batch_id: int, step: CommitStep):
    assert next_step(state, batch_id) is step

"""What the ledger's entries say about a query, and what a commit does then."""

from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.spark.sink import ledger_entry as room
from skyrocket.spark.sink.commit import Step, next_step
from skyrocket.spark.sink.handles import HandleList
from skyrocket.spark.sink.ledger_entry import (
    Committed,
    Committing,
    Entry,
    LedgerError,
    Nothing,
    Standing,
    committed_entry,
    committing_entries,
    entry_properties,
    ledger_tag,
    parsed_entry,
    standing,
)

QUEUE = Queue("t", "a", 1)


def committing(batch_id: int = 4, rows: int = 3) -> Committing:
    found = HandleList()
    for row in range(rows):
        found.add(row, row * 997, row * row)
    return Committing(batch_id, {QUEUE: 17}, [found.handles(QUEUE, "P")])


def told(entries: list[Entry], *, is_all: bool = True) -> Standing | None:
    """`entries` in the order of the queue."""
    return standing(entries[::-1], is_all=is_all)


def test_an_entry_is_read_as_it_was_written():
    for entry in (committed_entry("q 1", 3), *committing_entries("q 1", committing(), "mark")):
        assert parsed_entry(entry_properties(entry, "ID"), entry.body) == entry


def test_other_messages_are_no_entries():
    good = entry_properties(committed_entry("q", 3), "ID")
    assert parsed_entry({}, b"x") is None
    assert parsed_entry({**good, "SR_BATCH": "three"}, b"x") is None
    assert parsed_entry({**good, "SR_STATE": "thinking"}, b"x") is None


def test_a_querys_entries_have_a_tag_of_their_own():
    assert ledger_tag("one") != ledger_tag("another")
    assert entry_properties(committed_entry("one", 0), "ID")["TAGS"] == ledger_tag("one")


def test_without_entries_nothing_is_known():
    assert told([]) == Nothing()
    assert told([], is_all=False) is None


def test_the_last_entry_counts():
    begun = committing_entries("q", committing(4), "m")
    done = committed_entry("q", 4)
    assert told([committed_entry("q", 3), *begun, done]) == Committed(4)
    last = told([committed_entry("q", 3), *begun])
    assert isinstance(last, Committing)
    assert (last.batch_id, dict(last.starts)) == (4, {QUEUE: 17})
    assert last.handles[0].half_offsets.tolist() == [0, 1, 4]


def test_an_entry_of_several_parts_counts_when_its_last_part_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "PART_BYTES_MAX", 30)
    parts = committing_entries("q", committing(4, rows=50), "m")
    assert len(parts) > 3
    before = committed_entry("q", 3)
    for there in range(len(parts)):
        assert told([before, *parts[:there]]) == Committed(3), f"{there} of {len(parts)} parts"
    whole = told([before, *parts])
    assert isinstance(whole, Committing)
    assert whole.handles[0].rows.tolist() == list(range(50))


def test_parts_that_were_not_read_yet_are_read_and_those_sent_twice_do_no_harm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "PART_BYTES_MAX", 30)
    parts = committing_entries("q", committing(4, rows=50), "m")
    assert told(parts[2:], is_all=False) is None
    assert isinstance(told([*parts[:2], parts[1], *parts[2:], parts[-1]]), Committing)


def test_an_attempt_that_was_broken_off_does_not_mix_with_the_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "PART_BYTES_MAX", 30)
    broken, whole = (committing_entries("q", committing(4, rows), mark) for rows, mark in ((50, "m"), (20, "n")))
    last = told([*broken[:-1], *whole])
    assert isinstance(last, Committing)
    assert last.handles[0].rows.tolist() == list(range(20))


def test_a_lost_part_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "PART_BYTES_MAX", 30)
    parts = committing_entries("q", committing(4, rows=50), "m")
    with pytest.raises(LedgerError, match="lost a part"):
        told(parts[1:])


def test_damaged_handles_are_said():
    (entry,) = committing_entries("q", committing(), "m")
    with pytest.raises(LedgerError, match="cannot be read"):
        told([entry._replace(body=b"what?")])


@pytest.mark.parametrize(
    ("told", "batch_id", "step"),
    [
        (Nothing(), 0, Step.BEGIN),
        (Nothing(), 7, Step.BEGIN),
        (Committed(3), 4, Step.BEGIN),
        (Committed(4), 4, Step.SEEN),
        (Committed(5), 4, Step.SEEN),
        (committing(4), 4, Step.FINISH),
        (committing(3), 4, Step.FINISH_OTHER),
        (committing(5), 4, Step.SEEN),
    ],
)
def test_what_a_commit_does_depends_on_what_the_ledger_says(told: Standing, batch_id: int, step: Step):
    assert next_step(told, batch_id) is step

"""What `skyrocket pipeline table` prints: the summary for people and for programs."""

from __future__ import annotations

from skyrocket.cli.output import to_json
from skyrocket.cli.pipeline_jobs.table import plan_text, summary_document, summary_text
from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import MissingRange
from skyrocket.pipelines.json_columns.json_schema import JsonColumn, JsonColumns
from skyrocket.pipelines.table.fold import Counts
from skyrocket.pipelines.table.job import TableSummary
from skyrocket.pipelines.table.target import WaitingKey


def a_summary() -> TableSummary:
    made = TableSummary("Table orders of shop at db:5432", "orders", rejects="orders_rejects")
    made.columns = JsonColumns([JsonColumn("id", "bigint")])
    made.messages, made.batches, made.rejected, made.waiting = 12, 2, 1, 3
    made.counts = Counts(applied=5, repeated=2, late=1, conflicts=1)
    made.gaps = [WaitingKey("a", 1, 3, 2), WaitingKey("b", None, 2, 1)]
    made.missing = [MissingRange(Queue("orders", "broker-a", 0), 5, 9)]
    made.drift.add(f"text:f{number}" for number in range(25))
    return made


def test_the_summary_names_rejects_gaps_drift_and_missing_messages():
    lines = summary_text(a_summary()).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["MESSAGES", "APPLIED", "REPEATED", "LATE", "CONFLICTS", "REJECTED", "WAITING"],
        ["12", "5", "2", "1", "1", "1", "3"],
    ]
    assert lines[2:5] == [
        "Messages that are no changes: 1. orders_rejects has them, with the reasons.",
        "Key a has version 1; 2 changes from version 3 on wait.",
        "Key b has no version; 1 changes from version 2 on wait.",
    ]
    assert lines[5] == "Field f0 had text in 1 bodies, and there is no such column."
    assert lines[-3:] == [
        "5 more fields drifted; --json has them.",
        "Deleted before read: queue 0 of orders at broker-a, offsets 5 to 9.",
        "Table orders of shop at db:5432 is up to date with topic orders.",
    ]


def test_the_document_has_the_same_and_all_of_the_drift():
    found = summary_document(a_summary())
    assert (found["applied"], found["rejected"], found["rejects"], len(found["drift"])) == (5, 1, "orders_rejects", 25)
    assert found["gaps"] == [
        {"key": "a", "has": 1, "next": 3, "changes": 2},
        {"key": "b", "has": None, "next": 2, "changes": 1},
    ]
    assert found["missing"] == [{"topic": "orders", "broker": "broker-a", "queueId": 0, "start": 5, "stop": 9}]
    assert to_json(found).startswith('{"table":"Table orders of shop at db:5432"')


def test_a_plan_and_a_run_of_an_empty_topic_say_so():
    made = TableSummary("Table t", "t", is_new=True)
    assert plan_text(made).splitlines() == [
        "The topic has no message yet, so the columns are not known.",
        "Table t would be made. 0 messages would be read.",
    ]
    assert "The topic has no message yet, so the table was not made." in summary_text(made)

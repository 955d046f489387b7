"""`skyrocket pipeline table`: keep a table at the latest state of a topic of changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, drift_lines, pipeline_job, stop_on_signal
from skyrocket.pipelines.progress import ProgressHistory, record_progress

if TYPE_CHECKING:
    from skyrocket.pipelines.json_columns.json_schema import JsonColumns
    from skyrocket.pipelines.table.job import TableSummary

_SOURCE = "FIELD of the JSON body, property:NAME, message:key"


@pipeline_job(has_report=True)
def table(
    options: JobOptions,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of changes.")],
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="postgresql://…, postgresql:host=…, delta:FOLDER or iceberg:FOLDER.")
    ],
    key: Annotated[list[str], typer.Option(metavar="SOURCE", help=f"What names the row: {_SOURCE}. Repeat it for more parts.")],
    version: Annotated[str, typer.Option(metavar="SOURCE", help=f"What orders changes: {_SOURCE} or message:offset.")],
    mode: Annotated[
        str, typer.Option(help="last-writer: the highest version wins. expected-version: versions follow each other, gaps wait.")
    ] = "last-writer",
    delete_when: Annotated[
        str | None, typer.Option(metavar="SOURCE=VALUE", help="Marks a deletion, beside empty bodies and null: op=delete.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="The table in PostgreSQL or Iceberg. Without it: named as the topic."),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON Schema with the columns. Without it: inferred from new messages.")
    ] = None,
    first_version: Annotated[int, typer.Option(help="With expected-version: the version of a key's first change.")] = 1,
    waiting_max: Annotated[int, typer.Option(help="With expected-version: stop when more changes wait than this.")] = 100_000,
    batch_messages: Annotated[int, typer.Option(help="Commit after this many messages.")] = 100_000,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new messages until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="With --follow: how often to look.", min=0.1)] = 10.0,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Go on if messages were deleted before they were read.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many messages would be read, and which columns there are.")
    ] = False,
) -> JobResult:
    """Keep a table at the latest state of each key of a topic of changes. Run it again to continue."""
    from skyrocket.pipelines.json_columns.json_schema import read_json_schema  # noqa: PLC0415 — `--help` needs no Spark
    from skyrocket.pipelines.table import job  # noqa: PLC0415
    from skyrocket.pipelines.table.change_spec import ChangeSpec  # noqa: PLC0415

    history = ProgressHistory()
    wanted = job.TableOptions(
        topic=topic,
        spec=ChangeSpec(key, version, delete_when),
        mode=mode,
        first_version=first_version,
        columns=None if schema is None else read_json_schema(schema),
        batch_messages=batch_messages,
        waiting_max=waiting_max,
        skip_missing=skip_missing,
    )
    planned = job.plan_table(wanted, to, cluster=options.cluster, table=name)
    if dry_run:
        return JobResult(summary_document(planned), plan_text(planned), lambda: _page(options, planned, history, is_dry=True))
    spark = options.session("table")
    try:
        with stop_on_signal(follow) as stop:
            summary = job.maintain_table(
                spark,
                wanted,
                to,
                cluster=options.cluster,
                table=name,
                follow=follow,
                every_s=every,
                stop=stop,
                on_progress=record_progress(history, options.on_progress),
            )
    finally:
        spark.stop()
    return JobResult(summary_document(summary), summary_text(summary), lambda: _page(options, summary, history))


def _page(options: JobOptions, summary: TableSummary, history: ProgressHistory, *, is_dry: bool = False) -> str:
    from skyrocket.pipelines.table.presentation import table_page  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    return render_page(table_page(summary, history, options.cluster_name, time.time_ns() // 1_000_000, is_dry=is_dry))


def summary_document(summary: TableSummary) -> dict[str, Any]:
    counts = summary.counts
    return {
        "table": summary.table,
        "topic": summary.topic,
        "isNew": summary.is_new,
        "columns": {column.name: column.kind for column in summary.columns.columns},
        "planned": summary.planned,
        "messages": summary.messages,
        "batches": summary.batches,
        "applied": counts.applied,
        "repeated": counts.repeated,
        "late": counts.late,
        "conflicts": counts.conflicts,
        "rejected": summary.rejected,
        "rejects": summary.rejects,
        "reasons": dict(summary.reasons.most_common()),
        "waiting": summary.waiting,
        "gaps": [gap._asdict() for gap in summary.gaps],
        "drift": summary.drift.document(summary.columns),
        "missing": [
            {"topic": gap.queue.topic, "broker": gap.queue.broker_name, "queueId": gap.queue.queue_id}
            | {"start": gap.start, "stop": gap.stop}
            for gap in summary.missing
        ],
    }


def _columns_table(columns: JsonColumns) -> str:
    rows = [(column.name, column.kind) for column in columns.columns]
    return format_table(("COLUMN", "TYPE"), rows, "The topic has no message yet, so the columns are not known.")


def plan_text(summary: TableSummary) -> str:
    does = "would be made" if summary.is_new else "exists"
    return f"{_columns_table(summary.columns)}\n{summary.table} {does}. {summary.planned:,} messages would be read."


def summary_text(summary: TableSummary) -> str:
    counts = summary.counts
    head = ("MESSAGES", "APPLIED", "REPEATED", "LATE", "CONFLICTS", "REJECTED", "WAITING")
    row = (summary.messages, counts.applied, counts.repeated, counts.late, counts.conflicts, summary.rejected, summary.waiting)
    lines = [format_table(head, [row])]
    if summary.is_new and not summary.columns.columns and not summary.messages:
        lines.append("The topic has no message yet, so the table was not made.")
    if summary.rejected:
        lines.append(f"Messages that are no changes: {summary.rejected:,}. {summary.rejects} has them, with the reasons.")
    lines += [_gap_line(gap.key, gap.has, gap.next, gap.changes) for gap in summary.gaps]
    lines += drift_lines(summary.drift.fields(summary.columns))
    lines += [f"Deleted before read: {gap}." for gap in summary.missing]
    lines.append(f"{summary.table} is up to date with topic {summary.topic}.")
    return "\n".join(lines)


def _gap_line(key: str, has: int | None, lowest: int, changes: int) -> str:
    have = "no version" if has is None else f"version {has}"
    return f"Key {key[:80]} has {have}; {changes:,} changes from version {lowest} on wait."

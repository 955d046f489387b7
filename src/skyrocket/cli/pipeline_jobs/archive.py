"""`skyrocket pipeline archive`: copy topics to Parquet files, a Delta table or an Iceberg table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from skyrocket.cli.cluster_command import refuse
from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, drift_lines, pipeline_job, stop_on_signal
from skyrocket.pipelines.progress import ProgressHistory, record_progress

if TYPE_CHECKING:
    from skyrocket.pipelines.archive.summary import ArchiveSummary
    from skyrocket.pipelines.json_columns.json_schema import JsonColumns


@pipeline_job(has_report=True)
def archive(
    options: JobOptions,
    topics: Annotated[list[str], typer.Argument(metavar="TOPICS", help="Topics, or patterns such as 'order-*'.")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="FOLDER", help="The archive: a new folder, or one of an earlier run; also iceberg:FOLDER."),
    ],
    table_format: Annotated[
        str | None, typer.Option("--format", help="parquet, delta or iceberg, for a new archive. Without it: parquet.")
    ] = None,
    json_columns: Annotated[
        bool,
        typer.Option("--json-columns", help="For a new archive: JSON bodies as typed columns, too, as messages have them."),
    ] = False,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a new archive: the same, with the columns of a JSON Schema.")
    ] = None,
    compression: Annotated[str, typer.Option(help="Of the files: lz4, zstd, snappy or none.")] = "lz4",
    batch_messages: Annotated[int, typer.Option(help="Publish after this many messages.")] = 2_000_000,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new messages until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="With --follow: how often to look.", min=0.1)] = 10.0,
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files in the end.")] = False,
    compact_every: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="With --follow: how often to merge small files of past hours.", min=0.1),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Go on if messages were deleted before they were archived.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be archived.")] = False,
) -> JobResult:
    """Copy topics to Parquet files, a Delta table or an Iceberg table, each message once. Run it again to continue."""
    from skyrocket.pipelines.archive import job  # noqa: PLC0415 — importing Spark takes longer than a help text
    from skyrocket.pipelines.json_columns.json_schema import read_json_schema  # noqa: PLC0415

    history = ProgressHistory()
    to, table_format = _split_target(to, table_format)
    given: dict[str, Any] = {"cluster": options.cluster, "table_format": table_format, "skip_missing": skip_missing}
    if compact_every is not None and not follow:
        refuse("--compact-every merges files while the job follows its topics, and --follow is missing. Use --compact.")
    job.check_arguments(topics, to, table_format, compression, batch_messages)
    if dry_run:
        summary, _ = job.plan_archive(topics, to, **given)
        return JobResult(_document(summary), _planned_text(summary), lambda: _page(options, summary, history))
    job.check_topics(topics, options.cluster)
    columns: JsonColumns | Literal["infer"] | None = job.INFER if json_columns else None
    if schema is not None:
        columns = read_json_schema(schema)
    spark = options.session("archive")
    try:
        with stop_on_signal(follow) as stop:
            summary = job.archive_topics(
                spark,
                topics,
                to,
                json_columns=columns,
                compression=compression,
                batch_messages=batch_messages,
                compact=compact,
                follow=follow,
                every_s=every,
                compact_every_s=compact_every,
                stop=stop,
                on_progress=record_progress(history, options.on_progress),
                **given,
            )
    finally:
        spark.stop()
    return JobResult(_document(summary), _text(summary), lambda: _page(options, summary, history))


def _page(options: JobOptions, summary: ArchiveSummary, history: ProgressHistory) -> str:
    from skyrocket.pipelines.archive.presentation import archive_page  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    return render_page(archive_page(summary, history, options.cluster_name, time.time_ns() // 1_000_000))


def _split_target(to: str, table_format: str | None) -> tuple[str, str | None]:
    """Return folder and format of a target such as iceberg:FOLDER. A folder without a format stays as it is."""
    kind, colon, folder = to.partition(":")
    if not colon or kind not in ("parquet", "delta", "iceberg"):
        return to, table_format
    if table_format not in (None, kind):
        refuse(f"--to says {kind}, and --format {table_format}. Leave --format out.")
    return folder, kind


def _document(summary: ArchiveSummary) -> dict[str, Any]:
    return {
        "folder": summary.folder,
        "format": summary.format,
        "archiveId": summary.archive_id,
        "batches": summary.batches,
        "lastBatch": summary.last_batch,
        "planned": summary.planned,
        "messages": summary.messages,
        "mergedFiles": summary.merged,
        "isCompactionPutOff": summary.is_put_off,
        "topics": {
            topic: {"messages": counts.messages, "files": counts.files, "bytes": counts.size_bytes}
            for topic, counts in sorted(summary.topics.items())
        },
        "lost": summary.lost,
        "waitedSeconds": summary.waited_ms // 1000,
        "reservedSeconds": None if summary.reserved_ms is None else summary.reserved_ms // 1000,
        "isLate": summary.is_late,
        **_json_document(summary),
    }


def _json_document(summary: ArchiveSummary) -> dict[str, Any]:
    columns = summary.json_columns
    if columns is None:
        return {}
    kinds = {column.name: column.kind for column in columns.columns}
    return {"jsonColumns": kinds, "badBodies": summary.bad_bodies, "drift": summary.drift.document(columns)}


def _table(summary: ArchiveSummary, head: str) -> str:
    rows = [(topic, counts.messages, counts.files, counts.size_bytes) for topic, counts in sorted(summary.topics.items())]
    return format_table(("TOPIC", head, "FILES", "BYTES"), rows, "Nothing new: the archive has every message.")


def _planned_text(summary: ArchiveSummary) -> str:
    return "\n".join([_table(summary, "WOULD ARCHIVE"), *_late_lines(summary)])


def _late_lines(summary: ArchiveSummary) -> list[str]:
    from skyrocket.pipelines.archive.summary import expiry_sentences  # noqa: PLC0415

    return [" ".join(expiry_sentences(summary.waited_ms, summary.reserved_ms))] if summary.is_late else []


def _text(summary: ArchiveSummary) -> str:
    lines = [_table(summary, "ARCHIVED"), *_late_lines(summary)]
    if summary.merged:
        lines.append(f"{summary.merged} small files were merged.")
    if summary.is_put_off:
        lines.append("Small files were not merged: a job reads the archive. The next --compact does it.")
    lines += [
        f"Deleted before archived: {lost.topic}, queue {lost.queue_id} at {lost.broker}, offsets {lost.start} to {lost.stop}."
        for lost in summary.lost
    ]
    if summary.json_columns is not None:
        if summary.bad_bodies:
            lines.append(f"{summary.bad_bodies:,} bodies are not JSON objects as they should be; jsonError says why.")
        lines += drift_lines(summary.drift.fields(summary.json_columns))
    lines.append(f"{summary.folder} ({summary.format}) is at batch {summary.last_batch}.")
    return "\n".join(lines)

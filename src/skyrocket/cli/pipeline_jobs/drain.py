"""`skyrocket pipeline drain`: archive what waits for a group, and move the group past it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyrocket.cli.cluster_command import refuse
from skyrocket.cli.confirmation import DryRun, Plan, Yes
from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, pipeline_job

if TYPE_CHECKING:
    from skyrocket.pipelines.drain.drain_record import DrainRecord


@pipeline_job(has_report=True)
def drain(
    options: JobOptions,
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The consumer group with the backlog.")] = None,
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPICS", help="The topics to drain.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="FOLDER", help="The archive: a new folder, or one of a drain to continue.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only messages with this tag; others are resent. Repeat it for more.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only messages for which this condition of Spark holds; others are resent.")
    ] = None,
    subscribed: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="What the group subscribes to; true: all. Without it: as connected members say."),
    ] = None,
    compression: Annotated[str, typer.Option(help="Of the files: lz4, zstd, snappy or none.")] = "lz4",
    batch_messages: Annotated[int, typer.Option(help="Publish after this many messages.")] = 2_000_000,
    prove: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Prove that the drain in this folder has lost nothing.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> JobResult:
    """Archive what waits for a group, move the group past it, and prove later that nothing was lost."""
    if prove is not None:
        if group is not None or to is not None or yes:
            refuse("--prove takes the folder of a drain, and nothing else. Leave the group, --to and --yes out.")
        return _prove(options, prove)
    if group is None or not topics or to is None:
        refuse("Name the group, its topics and the archive: skyrocket pipeline drain GROUP TOPIC --to FOLDER")
    given: dict[str, Any] = {"cluster": options.cluster, "tags": tag or (), "where": where, "subscribed": subscribed}
    return _drain(options, group, topics, to, given, compression, batch_messages, yes=yes, dry_run=dry_run)


def _drain(
    options: JobOptions,
    group: str,
    topics: list[str],
    to: str,
    given: dict[str, Any],
    compression: str,
    batch_messages: int,
    *,
    yes: bool,
    dry_run: bool,
) -> JobResult:
    from skyrocket.pipelines.drain import job, presentation  # noqa: PLC0415 — importing Spark takes longer than a help text

    folder = str(job.check_arguments(group, topics, to, compression, batch_messages))
    record = job.plan_drain(group, topics, folder, **given)  # errors before Spark starts
    is_done, plan = record.state == "moved" or not record.waiting, _plan(record, folder)
    if not is_done and not options.allows(plan, yes=yes, dry_run=dry_run):
        document = presentation.drain_document(record, folder, dry_run=True)
        return JobResult(document, plan.dry_result().text, lambda: _page(record, folder))
    if not is_done:
        spark = options.session("drain")
        try:
            record = job.drain_group(
                spark,
                group,
                topics,
                folder,
                compression=compression,
                batch_messages=batch_messages,
                on_progress=options.on_progress,
                **given,
            )
        finally:
            spark.stop()
    table = format_table(presentation.DRAIN_HEAD, presentation.drain_rows(record), "")
    text = "\n".join(filter(None, (table, *presentation.drain_sentences(record, folder))))
    document = presentation.drain_document(record, folder, dry_run=dry_run and record.state != "moved")
    return JobResult(document, text, lambda: _page(record, folder))


def _plan(record: DrainRecord, folder: str) -> Plan:
    from skyrocket.pipelines.drain import presentation  # noqa: PLC0415

    table = format_table(presentation.PLAN_HEAD, presentation.plan_rows(record), "")
    return Plan(presentation.plan_sentence(record, folder), table=table)


def _page(record: DrainRecord, folder: str) -> str:
    from skyrocket.pipelines.drain.presentation import drain_page  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    return render_page(drain_page(record, folder))


def _prove(options: JobOptions, folder: Path) -> JobResult:
    from skyrocket.pipelines.drain import presentation  # noqa: PLC0415
    from skyrocket.pipelines.drain.drain_record import require_record  # noqa: PLC0415
    from skyrocket.pipelines.drain.proof import prove_drain  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    require_record(folder.absolute())  # errors before Spark starts
    spark = options.session("drain")
    try:
        proof = prove_drain(spark, folder, cluster=options.cluster, on_progress=options.on_progress)
    finally:
        spark.stop()
    table = format_table(presentation.PROOF_HEAD, presentation.proof_rows(proof))
    return JobResult(
        presentation.proof_document(proof),
        "\n".join((table, *presentation.proof_sentences(proof))),
        lambda: render_page(presentation.proof_page(proof)),
        is_sound=proof.is_sound,
    )

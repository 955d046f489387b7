"""`skyrocket pipeline verify`: integrity of stores, of a replica against its master, of an archive against its topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyrocket.cli.cluster_command import refuse
from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, pipeline_job

if TYPE_CHECKING:
    from skyrocket.pipelines.verify.result import VerifyResult


@pipeline_job(has_report=True)
def verify(
    options: JobOptions,
    stores: Annotated[list[Path] | None, typer.Argument(metavar="STORES", help="Store directories of brokers.")] = None,
    replica: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Compare this store's log with that of the one store, its master.")
    ] = None,
    archive: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Compare this archive with its topics.")] = None,
    only_topic: Annotated[list[str] | None, typer.Option(help="With --archive: only this topic. Repeat it for more.")] = None,
) -> JobResult:
    """Verify stores, a replica against its master, or an archive against its topics. The exit code is 1 if one is not sound."""
    _check(stores or [], replica, archive, only_topic or [])
    results = _verify(options, stores or [], replica, archive, only_topic or [])
    return _result(results)


def _check(stores: list[Path], replica: Path | None, archive: Path | None, topics: list[str]) -> None:
    """Refuse what cannot work, before Spark starts."""
    from skyrocket.pipelines.verify.archive_check import read_archived_offsets  # noqa: PLC0415 — `--help` needs no Spark
    from skyrocket.pipelines.verify.store_check import require_stores  # noqa: PLC0415

    if replica is not None and (len(stores) != 1 or archive is not None):
        refuse("--replica compares two stores: skyrocket pipeline verify MASTER --replica FOLDER")
    if not stores and archive is None:
        refuse("Name store directories, or an archive with --archive.")
    if topics and archive is None:
        refuse("--only-topic chooses topics of an archive, and --archive is missing.")
    require_stores([*stores, *([] if replica is None else [replica])])
    if archive is not None:
        read_archived_offsets(archive.absolute(), topics)


def _verify(
    options: JobOptions, stores: list[Path], replica: Path | None, archive: Path | None, topics: list[str]
) -> list[VerifyResult]:
    from skyrocket.pipelines.verify import job  # noqa: PLC0415

    spark = options.session("verify")
    try:
        if replica is not None:
            return [job.verify_replica(spark, stores[0], replica, on_progress=options.on_progress)]
        found = job.verify_stores(spark, stores, on_progress=options.on_progress) if stores else []
        if archive is not None:
            found.append(
                job.verify_archive(spark, archive, cluster=options.cluster, topics=topics, on_progress=options.on_progress)
            )
        return found
    finally:
        spark.stop()


def _result(results: list[VerifyResult]) -> JobResult:
    from skyrocket.pipelines.verify import presentation  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    table = format_table(presentation.HEAD, presentation.verify_rows(results))
    return JobResult(
        presentation.verify_document(results),
        "\n".join((table, *presentation.verify_lines(results))),
        lambda: render_page(presentation.verify_page(results)),
        is_sound=all(result.is_sound for result in results),
    )

"""`skyrocket pipeline backlog`: how far groups are behind, and what to do about it."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyrocket.cli.output import format_table, to_json
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, pipeline_job, write_page

if TYPE_CHECKING:
    from skyrocket.pipelines.backlog.presentation import BacklogHistory, BacklogReport


@pipeline_job(has_report=True, uses_spark=False)
def backlog(
    options: JobOptions,
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUPS", help="Consumer groups. Without any: all.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic. Repeat it for more.")] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Between two looks. 0: one look, without rates.")] = 2.0,
    count: Annotated[int, typer.Option(metavar="N", help="How many reports. 0: until Ctrl-C or SIGTERM.")] = 1,
) -> JobResult:
    """Show lag, rates, time to drain and members of consumer groups, with advice."""
    from skyrocket.pipelines.backlog.job import check_period  # noqa: PLC0415 — `--help` needs no client
    from skyrocket.pipelines.backlog.presentation import BacklogHistory  # noqa: PLC0415

    check_period(every, count)
    history = BacklogHistory()
    report = asyncio.run(_watch(options, groups or (), topic or (), every, count, history))
    return _result(options, report, history)


async def _watch(
    options: JobOptions, groups: Any, topics: Any, every_s: float, count: int, history: BacklogHistory
) -> BacklogReport:
    """Take reports, and print all but the last one as they come. Without `count`, the page is new after each.

    Ctrl-C and SIGTERM end the job without `count` with what it has seen.
    """
    from skyrocket.client import Admin  # noqa: PLC0415
    from skyrocket.pipelines.backlog.job import watch_backlog  # noqa: PLC0415
    from skyrocket.pipelines.backlog.presentation import BacklogReport  # noqa: PLC0415
    from skyrocket.pipelines.clusters import parse_cluster  # noqa: PLC0415

    last: BacklogReport | None = None
    task = asyncio.current_task()
    assert task is not None
    if not count:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Admin(options=parse_cluster(options.cluster).client_options()) as admin:
        try:
            async for report in watch_backlog(admin, groups, topics, every_s=every_s, count=count):
                if last is not None:
                    _print(options, last, history)
                last = report
                history.add(report)
                if options.report is not None and not count:
                    result = _result(options, report, history)
                    assert result.html is not None
                    write_page(options.report, result.html())
        except asyncio.CancelledError:
            if count:
                raise
            if last is None:
                raise KeyboardInterrupt from None
    return last if last is not None else BacklogReport(time.time_ns() // 1_000_000, ())


def _print(options: JobOptions, report: BacklogReport, history: BacklogHistory) -> None:
    result = _result(options, report, history)
    typer.echo(to_json(result.document) if options.as_json else f"{result.text}\n")


def _result(options: JobOptions, report: BacklogReport, history: BacklogHistory) -> JobResult:
    from skyrocket.pipelines.backlog import presentation  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    rows = presentation.topic_rows(report)
    table = format_table(presentation.TOPIC_HEAD, rows, "No group has an offset in a topic.")
    lines = [] if report.failure else [table]
    if report.latencies:
        lines.append(format_table(presentation.LATENCY_HEAD, presentation.latency_rows(report), ""))
    lines += [*presentation.advice_lines(report), *presentation.unknown_lines(report)]
    return JobResult(
        presentation.backlog_document(report),
        "\n".join(lines),
        lambda: render_page(presentation.backlog_page(report, history, options.cluster_name)),
    )

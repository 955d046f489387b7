"""`skyrocket pipeline audit`: what producers sent compared with what brokers have and a group has consumed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyrocket.cli.cluster_command import refuse
from skyrocket.cli.output import format_table, to_json
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, parse_ms, pipeline_job, stop_on_signal

if TYPE_CHECKING:
    from skyrocket.pipelines.audit.findings import AuditReport
    from skyrocket.pipelines.audit.job import TopicAudit


@pipeline_job(has_report=True)
def audit(
    options: JobOptions,
    topics: Annotated[list[str], typer.Argument(metavar="TOPICS", help="Topics to which producers with stamp=True send.")],
    group: Annotated[str | None, typer.Option(help="Also compare with what this group has consumed.")] = None,
    sent: Annotated[Path | None, typer.Option(metavar="FILE", help="What producers say that they sent, as JSON lines.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only messages stored at this time or later.")] = None,
    partitions: Annotated[int | None, typer.Option(metavar="N", min=1, help="Divide the topics into at least N tasks.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new messages, and print an alert for each finding.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --follow: go on after a restart where the audit was.")
    ] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="With --follow: how often to look.")] = 10.0,
    count: Annotated[int, typer.Option(metavar="N", min=0, help="With --follow: stop after N looks. 0: at Ctrl-C.")] = 0,
) -> JobResult:
    """Find missing, repeated and disordered messages by the sequence stamps of our client."""
    from skyrocket.client.sync import Admin  # noqa: PLC0415 — `--help` needs no client
    from skyrocket.pipelines.audit.job import TopicAudit, require_group  # noqa: PLC0415
    from skyrocket.pipelines.audit.sent_file import read_sent  # noqa: PLC0415
    from skyrocket.pipelines.clusters import parse_cluster  # noqa: PLC0415

    since_ms = parse_ms(since, "--since")
    if follow and (sent is not None or group is not None or since is not None or options.report is not None):
        refuse("--follow looks at stored messages only. Leave --sent, --group, --since and --report out.")
    if state is not None and not follow:
        refuse("--state is for a following audit, and --follow is missing.")
    told = read_sent(sent) if sent is not None else {}
    with Admin(options=parse_cluster(options.cluster).client_options()) as admin:
        for topic in topics:  # errors before Spark starts
            admin.topics.route(topic)
        if group is not None:
            require_group(admin, group)
        spark = options.session("audit")
        try:
            job = TopicAudit(spark, admin, options.cluster, topics, group=group, sent=told)
            if follow:
                return _follow(job, options, every, count, state)
            report = job.once(since_ms=since_ms, min_partitions=partitions)
        finally:
            spark.stop()
    return _result(options, report, topics)


def _result(options: JobOptions, report: AuditReport, topics: list[str]) -> JobResult:
    from skyrocket.pipelines.audit import presentation  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    faulty = [stream for stream in report.streams if not stream.is_clean]
    table = format_table(presentation.STREAM_HEAD, presentation.stream_rows(faulty), "") if faulty else ""
    now_ms = time.time_ns() // 1_000_000
    return JobResult(
        presentation.audit_document(report),
        "\n".join(filter(None, (table, presentation.verdict(report)))),
        lambda: render_page(presentation.audit_page(report, topics, options.cluster_name, now_ms)),
        is_sound=report.is_clean,
    )


def _follow(job: TopicAudit, options: JobOptions, every_s: float, count: int, state: Path | None) -> JobResult:
    """Print an alert for each finding as it comes, until there were `count` looks, or until Ctrl-C or SIGTERM."""
    from skyrocket.pipelines.audit.job import RETRY_S  # noqa: PLC0415
    from skyrocket.pipelines.audit.presentation import alert_text, stream_document  # noqa: PLC0415
    from skyrocket.pipelines.errors import our_sentence  # noqa: PLC0415

    def warn(error: Exception) -> None:
        sentence = our_sentence(str(error))
        typer.echo(f"A look failed, and is repeated for at most {RETRY_S / 60:.0f} minutes: {sentence}", err=True)

    looks = alerts = 0
    with stop_on_signal(follow=True) as stop:
        for news in job.follow(state=state, on_failure=warn):
            looks += 1
            for stream in news:
                alerts += 1
                typer.echo(to_json(stream_document(stream)) if options.as_json else alert_text(stream))
            if looks == count or stop.wait(every_s):
                break
    return JobResult({"looks": looks, "alerts": alerts}, f"{looks} looks, {alerts} alerts.", is_sound=not alerts)

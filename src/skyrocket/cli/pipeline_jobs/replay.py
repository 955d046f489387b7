"""`skyrocket pipeline replay`: send messages of an archive, a store directory or a topic to a topic."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyrocket.cli.cluster_command import TIME_HELP, refuse
from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, cluster_options_of, parse_ms, pipeline_job
from skyrocket.pipelines.progress import ProgressHistory, record_progress

if TYPE_CHECKING:
    from skyrocket.pipelines.replay.job import ReplaySource, ReplaySummary


@pipeline_job(has_report=True)
def replay(
    options: JobOptions,
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="The topic to send to.")] = None,
    to_group: Annotated[
        str | None,
        typer.Option("--to-group", metavar="GROUP", help="Instead of --to: only this group gets them, by its retry topic."),
    ] = None,
    archive: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The source: an archive.")] = None,
    store: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The source: a broker's store directory.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="The source: a topic of the cluster.")] = None,
    to_namesrv: Annotated[
        str | None,
        typer.Option("--to-namesrv", metavar="HOST:PORT", help="Nameservers of the target. Without it: the same cluster."),
    ] = None,
    to_namespace: Annotated[str, typer.Option(help="The target's namespace.", show_default=False)] = "",
    to_tls: Annotated[bool, typer.Option("--to-tls", help="Connect to the target with TLS.")] = False,
    to_access_key: Annotated[
        str, typer.Option(envvar="ROCKETMQ_TO_ACCESS_KEY", help="The access key at the target.", show_default=False)
    ] = "",
    to_secret_key: Annotated[
        str, typer.Option(envvar="ROCKETMQ_TO_SECRET_KEY", help="The secret key at the target.", show_default=False)
    ] = "",
    only_topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic of an archive or store. Repeat it for more.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Only messages stored since: {TIME_HELP}.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only messages stored before this time.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="Only messages with this key. Repeat it for more.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only messages with this tag. Repeat it for more.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only messages for which this condition of Spark holds.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="MESSAGES", help="At most this many messages a second.")] = None,
    progress: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where progress is kept. With it, a killed replay can be continued.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent, and where.")] = False,
) -> JobResult:
    """Send messages of an archive, a store directory or a topic to a topic. Each queue keeps its order."""
    from skyrocket.pipelines.replay import job  # noqa: PLC0415 — importing Spark takes longer than a help text
    from skyrocket.pipelines.replay.selection import Selection  # noqa: PLC0415
    from skyrocket.spark.session.builder import is_local  # noqa: PLC0415

    source = _source(archive, store, topic)
    about_target = {"namespace": to_namespace, "tls": to_tls, "access_key": to_access_key, "secret_key": to_secret_key}
    to_cluster = _target_cluster(to_namesrv, about_target)
    job.check_arguments(source, to, to_group, to_cluster, rate)
    selection = Selection(
        topics=tuple(only_topic or ()),
        from_ms=parse_ms(since, "--since"),
        until_ms=parse_ms(until, "--until"),
        keys=tuple(key or ()),
        tags=tuple(tag or ()),
        where=where,
    )
    if progress is None and not dry_run and not is_local(options.master):
        refuse(job.NO_PROGRESS)
    history = ProgressHistory()
    spark = options.session("replay")
    try:
        summary = job.replay_messages(
            spark,
            source,
            to=to,
            to_group=to_group,
            cluster=options.cluster,
            to_cluster=to_cluster,
            selection=selection,
            rate=rate,
            progress=progress,
            dry_run=dry_run,
            on_progress=record_progress(history, options.on_progress),
        )
    finally:
        spark.stop()
    target = (to_cluster or options.cluster).get("nameserver") or options.cluster_name
    return JobResult(
        _document(summary), _text(summary, dry_run), lambda: _page(summary, history, target, rate=rate, is_dry=dry_run)
    )


def _page(summary: ReplaySummary, history: ProgressHistory, where: str, *, rate: float | None, is_dry: bool) -> str:
    from skyrocket.pipelines.replay.presentation import replay_page  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    return render_page(replay_page(summary, history, where, time.time_ns() // 1_000_000, rate=rate, is_dry=is_dry))


def _source(archive: Path | None, store: Path | None, topic: str | None) -> ReplaySource:
    from skyrocket.pipelines.replay.job import ReplaySource  # noqa: PLC0415

    given = [
        *([ReplaySource("archive", str(archive.absolute()))] if archive is not None else []),
        *([ReplaySource("store", str(store.absolute()))] if store is not None else []),
        *([ReplaySource("topic", topic)] if topic else []),
    ]
    if len(given) != 1:
        refuse("Give one source: --archive, --store or --topic.")
    return given[0]


def _target_cluster(namesrv: str | None, about: dict[str, Any]) -> dict[str, str] | None:
    """Return the options of the target cluster; None for the cluster of the source."""
    if namesrv is not None:
        return cluster_options_of(namesrv=namesrv, **about, environment={})  # its variables are those of the source
    if any(about.values()):
        refuse("Options about the target's cluster need --to-namesrv.")
    return None


def _document(summary: ReplaySummary) -> dict[str, Any]:
    return {
        "source": summary.source,
        "replayId": summary.replay_id,
        "selected": summary.selected,
        "sent": summary.sent,
        "queues": [
            {"source": source, "target": counts.target, "selected": counts.selected, "sent": counts.sent}
            for source, counts in sorted(summary.queues.items())
        ],
    }


def _text(summary: ReplaySummary, dry_run: bool) -> str:
    rows = [
        (source.topic, source.broker_name, source.queue_id, *_place(counts.target), counts.selected, counts.sent)
        for source, counts in sorted(summary.queues.items())
    ]
    head = ("FROM", "BROKER", "QUEUE", "TO", "AT", "QUEUE", "SELECTED", "SENT")
    table = format_table(head, rows, "No message is selected.")
    verb = "would be sent" if dry_run else "were sent"
    count = summary.selected if dry_run else summary.sent
    return f"{table}\n{count:,} of {summary.selected:,} selected messages {verb}."


def _place(target: Any) -> tuple[str, str, int | str]:
    return ("-", "-", "-") if target is None else (target.topic, target.broker_name, target.queue_id)

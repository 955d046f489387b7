"""`skyrocket pipeline signup-demo`: a registration system on one machine, with proof that nothing is lost."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, pipeline_job
from skyrocket.pipelines.progress import JobProgress

if TYPE_CHECKING:
    from skyrocket.pipelines.signup.result import DemoResult
    from skyrocket.pipelines.signup.sign_ups import DemoSettings


@pipeline_job(has_report=True, brings_cluster=True)
def signup_demo(
    options: JobOptions,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long people sign up: a quarter in-line, the rest over the queue.")
    ] = 60.0,
    rate: Annotated[float, typer.Option(metavar="N", help="Sign-ups a second.")] = 30.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws users, times and faults. The same seed, the same draws.")] = 1,
    minute: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long a minute of the funnel takes, so that a short demo has several.")
    ] = 10.0,
) -> JobResult:
    """Run a sign-up system on one machine: a queue, four services, a funnel on Spark, and proof that nothing is lost."""
    from skyrocket.pipelines.signup.sign_ups import DemoSettings  # noqa: PLC0415 — `--help` needs no client

    settings = DemoSettings(seconds, rate, seed, minute)
    settings.check()  # before anything starts
    return _result(_play(options, settings))


def _play(options: JobOptions, settings: DemoSettings) -> DemoResult:
    from skyrocket.cli.pipeline_jobs.own_cluster import run_own_cluster  # noqa: PLC0415
    from skyrocket.pipelines.signup.job import run_signup_demo  # noqa: PLC0415

    with nullcontext("") if options.cluster else run_own_cluster() as nameserver:
        options.on_progress(JobProgress("starting Spark"))
        cluster = options.cluster or {"nameserver": nameserver}
        spark = options.session("signup-demo")
        try:
            return run_signup_demo(spark, cluster, settings, on_progress=options.on_progress)
        finally:
            spark.stop()


def _result(result: DemoResult) -> JobResult:
    from skyrocket.pipelines.signup import presentation  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    text = "\n\n".join(
        (
            format_table(presentation.LATENCY_HEAD, presentation.latency_rows(result)),
            format_table(presentation.SERVICE_HEAD, presentation.service_rows(result)),
            format_table(presentation.FUNNEL_HEAD, presentation.funnel_rows(result.funnel), "Nobody registered."),
            presentation.summary_sentence(result),
        )
    )
    return JobResult(
        presentation.demo_document(result),
        text,
        lambda: render_page(presentation.demo_page(result)),
        is_sound=result.is_clean,
    )

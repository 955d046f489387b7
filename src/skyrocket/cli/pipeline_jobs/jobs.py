"""`skyrocket pipeline NAME …`: the table of the jobs, each of which lives in its own module.

To add a job:

1. write its code in `skyrocket/pipelines/<job>/`, as a function that a program can import and call with a Spark session;
2. write its command in `skyrocket/cli/pipeline_jobs/<job>.py`, with `@pipeline_job` of `job_command`;
3. add its row here, and its page to docs/pipelines.md.

This module imports neither Spark nor a job, so that `skyrocket pipeline --help` is quick.
"""

from __future__ import annotations

from typing import Final

import typer

from skyrocket.cli.lazy_commands import LazyCommand, lazy_group

JOBS: Final = {
    "archive": LazyCommand(
        "skyrocket.cli.pipeline_jobs.archive:archive", "Copy topics to Parquet files or a Delta table, each message once."
    ),
    "replay": LazyCommand(
        "skyrocket.cli.pipeline_jobs.replay:replay", "Send messages of an archive, a store directory or a topic to a topic."
    ),
    "table": LazyCommand(
        "skyrocket.cli.pipeline_jobs.table:table", "Keep a table at the latest state of each key of a topic of changes."
    ),
    "audit": LazyCommand(
        "skyrocket.cli.pipeline_jobs.audit:audit",
        "Find missing, repeated and disordered messages by the sequence stamps of our client.",
    ),
    "backlog": LazyCommand(
        "skyrocket.cli.pipeline_jobs.backlog:backlog",
        "Show lag, rates, time to drain and members of consumer groups, with advice.",
    ),
    "drain": LazyCommand(
        "skyrocket.cli.pipeline_jobs.drain:drain",
        "Archive what waits for a group, move the group past it, and prove later that nothing was lost.",
    ),
    "deadletters": LazyCommand(
        "skyrocket.cli.pipeline_jobs.deadletters:deadletters",
        "Group dead letters by cause, topic and age, with samples; export them; resend a selection.",
    ),
    "verify": LazyCommand(
        "skyrocket.cli.pipeline_jobs.verify:verify",
        "Verify stores, a replica against its master, or an archive against its topics.",
    ),
    "signup-demo": LazyCommand(
        "skyrocket.cli.pipeline_jobs.signup_demo:signup_demo",
        "Run a sign-up system on one machine: a queue, four services, a funnel on Spark, and proof that nothing is lost.",
    ),
}

app = typer.Typer(
    cls=lazy_group(JOBS),
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def pipeline() -> None:
    """Run jobs: archive, replay, table, audit, backlog, drain, dead letters, verify, and the sign-up demo."""

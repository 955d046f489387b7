"""`skyrocket doctor`: look at a cluster, or at a store directory, and say what is wrong.

The exit code is 0 when there is no problem (warnings may be there), 1 when there is one, and 2 when nothing could be looked at.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command, refuse
from skyrocket.cli.doctor.presentation import examination_document, examination_text
from skyrocket.cli.output import to_json
from skyrocket.client import ClientError
from skyrocket.doctor.examination import Examination, examine_cluster, examine_store, merge_examinations
from skyrocket.store.errors import StoreError

app = typer.Typer()

PROBLEMS: Final = 1
EVERY_S_MAX: Final = 600.0


@cluster_command(app)
async def doctor(
    options: CommandOptions,
    group: Annotated[list[str] | None, typer.Option(help="Only this consumer group, and its topics. Repeat it for more.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic, and its groups. Repeat it for more.")] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A store directory on this machine, instead of a cluster.")
    ] = None,
    commit_log: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The directory of its log, if the broker has one in storePathCommitLog.")
    ] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Between two looks at a cluster. 0: one look.")] = 2.0,
) -> None:
    """Say what is wrong with a cluster or a store directory: the evidence, and what to do.

    With --store it looks at the directory and this machine; together with --group or --topic at the cluster, too. It changes
    nothing. The exit code is 1 when there are problems, and 2 when nothing could be looked at.
    """
    if not 0 <= every <= EVERY_S_MAX:
        refuse(f"--every is {every:g}; it must be 0 (one look) to {EVERY_S_MAX:g} seconds.")
    if commit_log is not None and store is None:
        refuse("--commit-log belongs to a store directory. Give it with --store DIR.")
    examined: list[Examination] = []
    try:
        if store is not None:
            examined.append(examine_store(store, commit_log, now_ms=time.time_ns() // 1_000_000))
        if store is None or group or topic:
            async with options.admin() as admin:
                examined.append(await examine_cluster(admin, group or (), topic or (), every_s=every))
    except (ClientError, StoreError) as error:
        refuse(str(error))
    found = merge_examinations(examined)
    typer.echo(to_json(examination_document(found)) if options.as_json else examination_text(found))
    if not found.is_sound:
        raise typer.Exit(PROBLEMS)

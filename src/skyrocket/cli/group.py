"""`skyrocket group …`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from skyrocket.cli.asking import Reach, asks
from skyrocket.cli.printing import Answer, moment, table
from skyrocket.client.admin import GroupMembers, GroupProgress, GroupSettings

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP")]
_AT_ONCE: Final = 16  # groups that are asked about at the same time


@asks(app)
async def create(
    reach: Reach,
    group: Name,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Whether it may consume.")] = None,
    broadcast: Annotated[bool | None, typer.Option("--broadcast/--no-broadcast", help="Whether it may broadcast.")] = None,
    orderly: Annotated[bool | None, typer.Option("--orderly/--no-orderly", help="Whether it consumes in order.")] = None,
    retries: Annotated[int | None, typer.Option(min=0, help="Before a message is a dead letter.")] = None,
    retry_queues: Annotated[int | None, typer.Option(min=1)] = None,
    cluster: Annotated[str | None, typer.Option(help="Only at the brokers of this cluster.")] = None,
) -> Answer:
    """Make a group, or change one: what is not said stays."""
    async with reach.admin() as admin:
        settings = await admin.groups.create(
            group,
            enabled=enabled,
            broadcast=broadcast,
            orderly=orderly,
            retries_max=retries,
            retry_queues=retry_queues,
            cluster=cluster,
        )
    return Answer(settings, _settings(settings))


@asks(app)
async def delete(
    reach: Reach,
    group: Name,
    keep_offsets: Annotated[bool, typer.Option("--keep-offsets", help="Its offsets stay.")] = False,
    topics: Annotated[bool, typer.Option("--topics", help="Its retry and dead-letter topics go too.")] = False,
) -> Answer:
    """Delete a group, and its offsets."""
    async with reach.admin() as admin:
        await admin.groups.delete(group, offsets=not keep_offsets, topics=topics)
    return Answer({"deleted": group}, f"Group {group} is gone.")


@asks(app, "list")
async def list_all(reach: Reach, everything: Annotated[bool, typer.Option("--all", help="The system's too.")] = False) -> Answer:
    """The groups, who is in them, and how far they are behind."""
    async with reach.admin() as admin:
        names = await admin.groups.names(internal=everything)

        async def ask(name: str) -> tuple[GroupMembers, GroupProgress]:
            return await admin.groups.members(name), await admin.groups.progress(name)

        found: list[tuple[GroupMembers, GroupProgress]] = []
        for at in range(0, len(names), _AT_ONCE):
            found += await asyncio.gather(*map(ask, names[at : at + _AT_ONCE]))
    document = [
        {"group": members.group, "members": len(members.members), "lag": progress.lag, "rate": progress.rate}
        for members, progress in found
    ]
    rows = [(one["group"], one["members"], one["lag"], f"{one['rate']:.1f}") for one in document]
    return Answer(document, table(("GROUP", "MEMBERS", "LAG", "RATE"), rows, "There are no groups."))


@asks(app)
async def show(reach: Reach, group: Name) -> Answer:
    """A group's settings, its members, and its progress in every queue."""
    async with reach.admin() as admin:
        settings = await admin.groups.get(group)
        members, progress = await admin.groups.members(group), await admin.groups.progress(group)
    member_rows = [(one.client_id, one.address, one.language, one.version) for one in members.members]
    queue_rows = [
        (one.topic, one.broker_name, one.queue_id, one.committed_offset, one.end_offset, one.lag, moment(one.consumed_ms))
        for one in progress.queues
    ]
    subscriptions = ", ".join(f"{topic} ({expression})" for topic, expression in members.subscriptions.items())
    parts = [
        _settings(settings),
        table(("MEMBER", "ADDRESS", "LANGUAGE", "VERSION"), member_rows, "Nobody of it is connected."),
        *([f"It consumes {subscriptions}."] if subscriptions else []),
        table(("TOPIC", "BROKER", "QUEUE", "COMMITTED", "END", "LAG", "CONSUMED UP TO"), queue_rows, "It has no offsets yet."),
        f"Lag: {progress.lag}.",
    ]
    return Answer({"settings": settings, "members": members, "progress": progress}, "\n\n".join(parts))


def _settings(settings: list[GroupSettings]) -> str:
    rows = [
        (one.group, one.broker_name, _yes(one.is_enabled), _yes(one.is_orderly), _yes(one.may_broadcast), one.retries_max)
        for one in settings
    ]
    return table(("GROUP", "BROKER", "ENABLED", "ORDERLY", "MAY BROADCAST", "RETRIES"), rows)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"

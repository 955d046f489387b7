"""`skyrocket group …`: create, change, list, show and delete consumer groups."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from skyrocket.cli.admin.group_member import ask_members, member_text
from skyrocket.cli.cluster_command import CommandOptions, cluster_command
from skyrocket.cli.confirmation import Plan
from skyrocket.cli.names import GroupName
from skyrocket.cli.output import CommandResult, format_table, format_time
from skyrocket.client.admin import GroupMembers, GroupProgress, GroupSettings
from skyrocket.client.admin.groups import find_holders

app = typer.Typer(no_args_is_help=True, add_completion=False)

_CONCURRENT_GROUPS: Final = 16  # groups whose members and progress are fetched at the same time


@cluster_command(app)
async def create(
    options: CommandOptions,
    group: GroupName,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Whether the group may consume.")] = None,
    broadcast: Annotated[bool | None, typer.Option("--broadcast/--no-broadcast", help="Whether the group may broadcast.")] = None,
    orderly: Annotated[bool | None, typer.Option("--orderly/--no-orderly", help="Whether the group consumes in order.")] = None,
    retries: Annotated[int | None, typer.Option(min=0, help="Deliveries before a message becomes a dead letter.")] = None,
    retry_queues: Annotated[int | None, typer.Option(min=1, help="Queues of the retry topic.")] = None,
    broker_cluster: Annotated[str | None, typer.Option(help="Only on the brokers of this cluster.")] = None,
) -> CommandResult:
    """Create a group, or change the given settings of an existing one."""
    async with options.admin() as admin:
        settings = await admin.groups.create(
            group,
            enabled=enabled,
            broadcast=broadcast,
            orderly=orderly,
            retries_max=retries,
            retry_queues=retry_queues,
            cluster=broker_cluster,
        )
    return CommandResult(settings, _settings(settings))


@cluster_command(app, destroys=True)
async def delete(
    options: CommandOptions,
    group: GroupName,
    keep_offsets: Annotated[bool, typer.Option("--keep-offsets", help="Keep the group's offsets.")] = False,
    topics: Annotated[bool, typer.Option("--topics", help="Delete its retry and dead-letter topics too.")] = False,
) -> CommandResult:
    """Delete a group and its offsets."""
    async with options.admin() as admin:
        if options.confirmation.needs_plan:
            await admin.groups.get(group)
            members, progress = await admin.groups.members(group), await admin.groups.progress(group)
            plan = _plan_deletion(members, progress, keep_offsets=keep_offsets, topics=topics)
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        await admin.groups.delete(group, offsets=not keep_offsets, topics=topics)
    return CommandResult({"deleted": group}, f"Group {group} is deleted.")


def _plan_deletion(members: GroupMembers, progress: GroupProgress, *, keep_offsets: bool, topics: bool) -> Plan:
    read = sorted({queue.topic for queue in progress.queues})
    parts = [
        "" if keep_offsets or not read else f", with its offsets in {', '.join(read)}",
        ", and its retry and dead-letter topics with their messages" if topics else "",
    ]
    connected = f" {len(members.members)} members are connected." if members.members else ""
    document = {"group": members.group, "members": len(members.members), "lag": progress.lag, "topics": read}
    return Plan(f"Group {members.group} will be deleted{''.join(parts)}.{connected}", document)


@cluster_command(app, "list")
async def list_all(
    options: CommandOptions, everything: Annotated[bool, typer.Option("--all", help="Include system groups.")] = False
) -> CommandResult:
    """List the groups with their members, lag and rate."""
    async with options.admin() as admin:
        names = await admin.groups.names(internal=everything)

        async def fetch(name: str) -> tuple[GroupMembers, GroupProgress]:
            return await admin.groups.members(name), await admin.groups.progress(name)

        found: list[tuple[GroupMembers, GroupProgress]] = []
        for at in range(0, len(names), _CONCURRENT_GROUPS):
            found += await asyncio.gather(*map(fetch, names[at : at + _CONCURRENT_GROUPS]))
    document = [
        {"group": members.group, "members": len(members.members), "lag": progress.lag, "rate": progress.rate}
        for members, progress in found
    ]
    rows = [(one["group"], one["members"], one["lag"], f"{one['rate']:.1f}") for one in document]
    return CommandResult(document, format_table(("GROUP", "MEMBERS", "LAG", "RATE"), rows, "There are no groups."))


@cluster_command(app)
async def show(options: CommandOptions, group: GroupName) -> CommandResult:
    """Show a group's settings, its members, and its progress in every queue, with the member that holds it."""
    async with options.admin() as admin:
        settings = await admin.groups.get(group)
        members, progress = await admin.groups.members(group), await admin.groups.progress(group)
        states, silent = await ask_members(admin, group, members.members)
    holders = find_holders(states)
    member_rows = [(one.client_id, one.address, one.language, one.version) for one in members.members]
    queue_rows = [
        (
            *(one.topic, one.broker_name, one.queue_id, one.committed_offset, one.end_offset, one.lag),
            *(format_time(one.consumed_ms), holders.get(one.queue, "-")),
        )
        for one in progress.queues
    ]
    subscriptions = ", ".join(f"{topic} ({expression})" for topic, expression in members.subscriptions.items())
    parts = [
        _settings(settings),
        format_table(("MEMBER", "ADDRESS", "LANGUAGE", "VERSION"), member_rows, "No member is connected."),
        *([f"Subscriptions: {subscriptions}."] if subscriptions else []),
        format_table(
            ("TOPIC", "BROKER", "QUEUE", "COMMITTED", "END", "LAG", "CONSUMED UP TO", "HELD BY"),
            queue_rows,
            "The group has no offsets yet.",
        ),
        *silent,
        f"Lag: {progress.lag}.",
    ]
    held = [
        {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id, "clientId": client_id}
        for client_id, state in states.items()
        for queue in (row.queue for row in state.queues)
    ]
    document = {"settings": settings, "members": members, "progress": progress, "heldQueues": held, "silentMembers": silent}
    return CommandResult(document, "\n\n".join(parts))


@cluster_command(app)
async def member(
    options: CommandOptions,
    group: GroupName,
    client: Annotated[
        str, typer.Argument(metavar="CLIENT", help="The client id of a connected consumer, as `group show` lists it.")
    ],
    stack: Annotated[bool, typer.Option("--stack", help="Also what its threads do.")] = False,
) -> CommandResult:
    """Ask a connected consumer for its subscriptions, the queues that it holds, its rates and settings."""
    async with options.admin() as admin:
        state = await admin.groups.member_state(group, client, stack=stack)
    return CommandResult(state, member_text(state, with_stack=stack))


def _settings(settings: list[GroupSettings]) -> str:
    rows = [
        (
            one.group,
            one.broker_name,
            _yes_no(one.is_enabled),
            _yes_no(one.is_orderly),
            _yes_no(one.may_broadcast),
            one.retries_max,
        )
        for one in settings
    ]
    return format_table(("GROUP", "BROKER", "ENABLED", "ORDERLY", "MAY BROADCAST", "RETRIES"), rows)


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"

"""`skyrocket offset …`: show, reset, skip and clone the offsets of consumer groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from skyrocket.cli.admin.offset_moves import make_plan, plan_reset, plan_skip
from skyrocket.cli.cluster_command import (
    START_HELP,
    CommandOptions,
    choose_broker,
    cluster_command,
    parse_start,
    refuse,
    require_group,
)
from skyrocket.cli.names import GroupName, TopicName, complete_group
from skyrocket.cli.output import CommandResult, format_table
from skyrocket.client import Admin, NotFoundError, Queue
from skyrocket.client.admin import QueueOffset

app = typer.Typer(no_args_is_help=True, add_completion=False)

QueueBroker = Annotated[
    str | None, typer.Option("--broker", help="The queue's broker. Required when several brokers have the topic.")
]
_OFFSET = "offset:"


@cluster_command(app)
async def show(options: CommandOptions, group: GroupName, topic: TopicName) -> CommandResult:
    """Show a group's offset in each queue of a topic."""
    async with options.admin() as admin:
        await require_group(admin, group)
        found = await admin.offsets.get(group, topic)
    return _result(found)


@cluster_command(app, destroys=True)
async def reset(
    options: CommandOptions,
    group: GroupName,
    topic: TopicName,
    to: Annotated[str, typer.Option(metavar="X", help=f"{START_HELP} Or offset:42 together with --queue.")],
    queue: Annotated[int | None, typer.Option(min=0, help="Reset only this queue.")] = None,
    broker: QueueBroker = None,
) -> CommandResult:
    """Reset a group's offsets, whether or not members are connected. They may finish messages that they are handling."""
    is_offset = to.startswith(_OFFSET)
    if is_offset and (queue is None or not to.removeprefix(_OFFSET).isdigit()):
        refuse(f"--to {to} needs a queue and a number. Write it like this: --queue 0 --to offset:42")
    start = "first" if is_offset else parse_start(to)
    async with options.admin() as admin:
        targets: dict[Queue, int] = {}
        if queue is not None:
            wanted = await _find_queue(admin, topic, broker, queue)
            offsets = await admin.offsets.at(topic, start)
            targets = {wanted: int(to.removeprefix(_OFFSET)) if is_offset else offsets[wanted]}
        if options.confirmation.needs_plan:
            await require_group(admin, group)
            current = await admin.offsets.get(group, topic)
            plan = make_plan(group, topic, plan_reset(current, targets or await admin.offsets.at(topic, start)))
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        if targets:
            return _result(await admin.offsets.set(group, targets))
        return _result(await admin.offsets.reset(group, topic, start))


@cluster_command(app, destroys=True)
async def skip(
    options: CommandOptions,
    group: GroupName,
    topic: TopicName,
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=1, help="Skip this many messages of each queue. Without it: to the end.")
    ] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Skip messages of this queue only.")] = None,
    broker: QueueBroker = None,
) -> CommandResult:
    """Move a group past messages that it has not consumed: past N of each queue, or to the end."""
    async with options.admin() as admin:
        await require_group(admin, group)
        current = await admin.offsets.get(group, topic)
        if queue is not None:
            wanted = await _find_queue(admin, topic, broker, queue)
            current = [row for row in current if row.queue == wanted]
        firsts, ends = await admin.offsets.at(topic, "first"), await admin.offsets.at(topic, "last")
        moves = plan_skip(current, firsts, ends, count)
        plan = make_plan(group, topic, moves)
        if not options.confirmation.allows(plan):
            return plan.dry_result()
        found = await admin.offsets.set(group, {move.queue: move.then for move in moves})
    return CommandResult(found, plan.text)


async def _find_queue(admin: Admin, topic: str, broker: str | None, queue_id: int) -> Queue:
    wanted = Queue(topic, await choose_broker(admin, topic, broker), queue_id)
    if wanted not in await admin.offsets.at(topic, "first"):
        raise NotFoundError(f"There is no {wanted}. List the queues with: skyrocket topic show {topic}")
    return wanted


@cluster_command(app, destroys=True)
async def clone(
    options: CommandOptions,
    source: Annotated[str, typer.Argument(metavar="FROM_GROUP", autocompletion=complete_group)],
    target: Annotated[str, typer.Argument(metavar="TO_GROUP", autocompletion=complete_group)],
    topic: TopicName,
) -> CommandResult:
    """Copy the offsets of one group to another, whose own offsets in the topic are overwritten."""
    async with options.admin() as admin:
        await require_group(admin, source)
        await require_group(admin, target)
        if options.confirmation.needs_plan:
            copied = {row.queue: row.offset for row in await admin.offsets.get(source, topic) if row.offset is not None}
            moves = plan_reset(await admin.offsets.get(target, topic), copied)
            plan = replace(make_plan(target, topic, moves), is_harmless=not any(move.distance for move in moves))
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        return _result(await admin.offsets.clone(source, target, topic))


def _result(found: list[QueueOffset]) -> CommandResult:
    rows = [(one.group, one.topic, one.broker_name, one.queue_id, "-" if one.offset is None else one.offset) for one in found]
    return CommandResult(found, format_table(("GROUP", "TOPIC", "BROKER", "QUEUE", "OFFSET"), rows))

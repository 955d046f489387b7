"""`skyrocket offset …`: show, reset and clone the offsets of consumer groups."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.cluster_command import (
    START_HELP,
    CommandOptions,
    choose_broker,
    cluster_command,
    parse_start,
    refuse,
    require_group,
)
from skyrocket.cli.output import CommandResult, format_table
from skyrocket.client import Queue
from skyrocket.client.admin import QueueOffset

app = typer.Typer(no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]
_OFFSET = "offset:"


@cluster_command(app)
async def show(options: CommandOptions, group: Group, topic: Topic) -> CommandResult:
    """Show a group's offset in each queue of a topic."""
    async with options.admin() as admin:
        await require_group(admin, group)
        found = await admin.offsets.get(group, topic)
    return _result(found)


@cluster_command(app)
async def reset(
    options: CommandOptions,
    group: Group,
    topic: Topic,
    to: Annotated[str, typer.Option(metavar="X", help=f"{START_HELP} Or offset:42 together with --queue.")],
    queue: Annotated[int | None, typer.Option(min=0, help="Reset only this queue.")] = None,
    broker: Annotated[str | None, typer.Option(help="The queue's broker. Required when several brokers have the topic.")] = None,
) -> CommandResult:
    """Reset a group's offsets, whether or not members are connected. They may finish messages that they are handling."""
    is_offset = to.startswith(_OFFSET)
    if is_offset and (queue is None or not to.removeprefix(_OFFSET).isdigit()):
        refuse(f"--to {to} needs a queue and a number. Write it like this: --queue 0 --to offset:42")
    start = "first" if is_offset else parse_start(to)
    async with options.admin() as admin:
        if queue is None:
            return _result(await admin.offsets.reset(group, topic, start))
        wanted = Queue(topic, await choose_broker(admin, topic, broker), queue)
        if is_offset:
            offset: int | None = int(to.removeprefix(_OFFSET))
        else:
            offset = (await admin.offsets.at(topic, start)).get(wanted)
        if offset is None:
            refuse(f"There is no {wanted}. List the queues with: skyrocket topic show {topic}")
        return _result(await admin.offsets.set(group, {wanted: offset}))


@cluster_command(app)
async def clone(
    options: CommandOptions,
    source: Annotated[str, typer.Argument(metavar="FROM_GROUP")],
    target: Annotated[str, typer.Argument(metavar="TO_GROUP")],
    topic: Topic,
) -> CommandResult:
    """Copy the offsets of one group to another."""
    async with options.admin() as admin:
        await require_group(admin, source)
        await require_group(admin, target)
        return _result(await admin.offsets.clone(source, target, topic))


def _result(found: list[QueueOffset]) -> CommandResult:
    rows = [(one.group, one.topic, one.broker_name, one.queue_id, "-" if one.offset is None else one.offset) for one in found]
    return CommandResult(found, format_table(("GROUP", "TOPIC", "BROKER", "QUEUE", "OFFSET"), rows))

"""`skyrocket tail`: follow a topic without a group."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import typer

from skyrocket.cli.cluster_command import START_HELP, CommandOptions, choose_broker, cluster_command, parse_start
from skyrocket.cli.names import TopicName
from skyrocket.cli.output import print_message
from skyrocket.client import Queue

app = typer.Typer(add_completion=False)


@cluster_command(app, "tail")
async def tail(
    options: CommandOptions,
    topic: TopicName,
    start: Annotated[str, typer.Option("--from", metavar="X", help=START_HELP)] = "last",
    queue: Annotated[list[int] | None, typer.Option(min=0, help="Only this queue. Repeat it for more.")] = None,
    broker: Annotated[
        str | None, typer.Option(help="The broker of --queue. Required when several brokers have the topic.")
    ] = None,
    tag: Annotated[str, typer.Option("--filter", "--tag", help="Only messages with these tags: a || b.")] = "*",
    count: Annotated[int | None, typer.Option("-c", "--count", min=1, help="Stop after this many messages.")] = None,
    body_only: Annotated[bool, typer.Option("--body", help="Print only the bodies, byte for byte.")] = False,
) -> None:
    """Follow a topic: print messages as they arrive, until Ctrl-C. It joins no group and stores no offset.

    With --json, one JSON document per line. Messages of one queue are in order.
    """
    begin = parse_start(start)
    printed = 0
    async with options.admin() as admin:
        holder = await choose_broker(admin, topic, broker) if queue else ""
        queues = [Queue(topic, holder, number) for number in queue] if queue else None
        async with aclosing(admin.messages.follow(topic, start=begin, expression=tag, queues=queues)) as messages:
            async for message in messages:
                print_message(message, as_json=options.as_json, body_only=body_only)
                printed += 1
                if printed == count:
                    return

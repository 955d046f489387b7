"""`skyrocket consume`: print a topic's messages, as a member of a group or without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

import typer

from skyrocket.cli.cluster_command import START_HELP, CommandOptions, cluster_command, parse_start
from skyrocket.cli.names import TopicName, complete_group
from skyrocket.cli.output import print_message
from skyrocket.client import Consumer, Received

app = typer.Typer(add_completion=False)


@cluster_command(app, "consume")
async def consume(
    options: CommandOptions,
    topic: TopicName,
    group: Annotated[
        str | None,
        typer.Option(
            "-g",
            "--group",
            help="Join this group and commit its offsets. Without it, messages are only shown.",
            autocompletion=complete_group,
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="X", help=f"{START_HELP} With --group: where a new group starts.")
    ] = None,
    count: Annotated[int | None, typer.Option("-c", "--count", min=1, help="Stop after this many messages.")] = None,
    tag: Annotated[str, typer.Option(help="Only messages with these tags: a || b.")] = "*",
    wait: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Stop when no message arrives for this long. By default, wait for ever."),
    ] = None,
    body_only: Annotated[bool, typer.Option("--body", help="Print only the bodies, byte for byte.")] = False,
) -> None:
    """Print messages as they arrive, one per line; with --json, one JSON document per line.

    With --group, a message counts as consumed once it is printed. Without it, the command prints the messages that the topic has
    now, queue by queue, and changes no offset.
    """
    begin = parse_start(start or ("first" if group is None else "last"))
    left = count
    if group is None:
        async with options.admin() as admin:
            async for message in admin.messages.read(topic, start=begin, expression=tag):
                print_message(message, as_json=options.as_json, body_only=body_only)
                left = None if left is None else left - 1
                if left == 0:
                    return
        return
    count_printed = 0
    async with Consumer(options.nameservers, group=group, topics={topic: tag}, start=begin, **options.client_options) as consumer:
        async for message in _until_silent(consumer, wait):
            print_message(message, as_json=options.as_json, body_only=body_only)
            count_printed += 1
            if count_printed == count:
                return
    if not count_printed:  # it ended because nothing came: a wrong topic is a mistake, an empty one is not
        async with options.admin() as admin:
            await admin.topics.route(topic)


async def _until_silent(consumer: Consumer, wait_s: float | None) -> AsyncIterator[Received]:
    """Yield messages until none arrives for `wait_s` seconds.

    Take them from the consumer one at a time, so that a message that was not printed is not acknowledged.
    """
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(wait_s):
                messages = await consumer.messages(1)
            if not messages:
                return
            yield messages[0]

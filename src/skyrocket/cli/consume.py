"""`skyrocket consume`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

import typer

from skyrocket.cli.asking import START_HELP, Reach, asks, start_of
from skyrocket.cli.printing import as_json, message_document, message_line
from skyrocket.client import Consumer, Received

app = typer.Typer(add_completion=False)


@asks(app, "consume")
async def consume(
    reach: Reach,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    group: Annotated[
        str | None,
        typer.Option("-g", "--group", help="Be a member of this group: its offsets move. Without one, messages are only shown."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="X", help=f"{START_HELP} Of a group: where it begins if it was never here.")
    ] = None,
    count: Annotated[int | None, typer.Option("-c", "--count", min=1, help="End after so many.")] = None,
    tag: Annotated[str, typer.Option(help="Only these: a || b.")] = "*",
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="End when none has come for so long. Else a group waits on.")
    ] = None,
    body_only: Annotated[bool, typer.Option("--body", help="Print bodies only, as they are.")] = False,
) -> None:
    """Print messages as they come: one a line, and with --json one JSON document a line.

    With a group they count as consumed once they are printed. Without one, those that are there now are printed, queue by queue,
    and nobody's offset moves.
    """
    begin = start_of(start or ("first" if group is None else "last"))
    left = count
    if group is None:
        async with reach.admin() as admin:
            async for message in admin.messages.read(topic, start=begin, expression=tag):
                _print(message, reach, body_only=body_only)
                left = None if left is None else left - 1
                if left == 0:
                    return
        return
    async with Consumer(reach.nameservers, group=group, topics={topic: tag}, start=begin, **reach.options) as consumer:
        async for message in _until_silent(consumer, wait):
            _print(message, reach, body_only=body_only)
            left = None if left is None else left - 1
            if left == 0:
                return


async def _until_silent(consumer: Consumer, wait_s: float | None) -> AsyncIterator[Received]:
    """Handed out one by one, so that a message that was not printed is not acknowledged either."""
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(wait_s):
                messages = await consumer.messages(1)
            if not messages:
                return
            yield messages[0]


def _print(message: Received, reach: Reach, *, body_only: bool) -> None:
    if body_only:
        typer.echo(message.body)
    else:
        typer.echo(as_json(message_document(message)) if reach.as_json else message_line(message))

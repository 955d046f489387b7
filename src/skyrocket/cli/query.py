"""`skyrocket query …`: find messages by key, by id, or by queue offset."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.cluster_command import START_HELP, CommandOptions, choose_broker, cluster_command, parse_start
from skyrocket.cli.output import CommandResult, message_document, message_line, message_text
from skyrocket.client import ConfigurationError, NotFoundError, Queue, Received

app = typer.Typer(no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


@cluster_command(app)
async def key(
    options: CommandOptions,
    topic: Topic,
    key: Annotated[str, typer.Argument(metavar="KEY")],
    since: Annotated[str, typer.Option(metavar="X", help=START_HELP)] = "first",
    count: Annotated[int, typer.Option("-c", "--count", min=1, max=64, help="At most this many, the newest ones.")] = 32,
) -> CommandResult:
    """List the messages with a key, oldest first."""
    start = parse_start(since)
    async with options.admin() as admin:
        found = await admin.messages.by_key(topic, key, since=None if isinstance(start, str) else start, most=count)
    lines = "\n".join(message_line(message) for message in found)
    return CommandResult(
        [message_document(message) for message in found], lines or f"No message of topic '{topic}' has the key '{key}'."
    )


@cluster_command(app, "id")
async def by_id(options: CommandOptions, topic: Topic, message_id: Annotated[str, typer.Argument(metavar="ID")]) -> CommandResult:
    """Show the message with an id: the unique id that its producer gave it, or an offset id."""
    async with options.admin() as admin:
        try:
            found = await admin.messages.by_unique_id(topic, message_id)
        except NotFoundError as no_such_id:
            try:  # an offset id has the same form as a unique id
                found = [await admin.messages.by_offset_id(message_id)]
            except (NotFoundError, ConfigurationError):
                raise no_such_id from None
    return _result(found)


@cluster_command(app)
async def offset(
    options: CommandOptions,
    topic: Topic,
    queue: Annotated[int, typer.Argument(metavar="QUEUE", min=0)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0)],
    broker: Annotated[str | None, typer.Option(help="The queue's broker. Required when several brokers have the topic.")] = None,
) -> CommandResult:
    """Show the message at an offset of a queue."""
    async with options.admin() as admin:
        holder = await choose_broker(admin, topic, broker)
        return _result([await admin.messages.by_offset(Queue(topic, holder, queue), offset)])


def _result(found: list[Received]) -> CommandResult:
    return CommandResult(
        [message_document(message) for message in found], "\n\n".join(message_text(message) for message in found)
    )

"""`skyrocket query …`."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.asking import START_HELP, Reach, asks, refuse, start_of
from skyrocket.cli.printing import Answer, message_document, message_line, message_text
from skyrocket.client import ConfigurationError, NotFoundError, Queue, Received

app = typer.Typer(no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


@asks(app)
async def key(
    reach: Reach,
    topic: Topic,
    key: Annotated[str, typer.Argument(metavar="KEY")],
    since: Annotated[str, typer.Option(metavar="X", help=START_HELP)] = "first",
    count: Annotated[int, typer.Option("-c", "--count", min=1, max=64, help="At most so many, the newest.")] = 32,
) -> Answer:
    """Messages that carry a key, oldest first."""
    start = start_of(since)
    async with reach.admin() as admin:
        found = await admin.messages.by_key(topic, key, since=None if isinstance(start, str) else start, most=count)
    lines = "\n".join(message_line(message) for message in found)
    return Answer([message_document(message) for message in found], lines or f"No message of {topic} has the key {key}.")


@asks(app, "id")
async def by_id(reach: Reach, topic: Topic, message_id: Annotated[str, typer.Argument(metavar="ID")]) -> Answer:
    """The message with an id: the unique one that its producer gave it, or an offset id."""
    async with reach.admin() as admin:
        try:
            found = await admin.messages.by_unique_id(topic, message_id)
        except NotFoundError as no_such_id:
            try:  # the two look alike
                found = [await admin.messages.by_offset_id(message_id)]
            except (NotFoundError, ConfigurationError):
                raise no_such_id from None
    return _whole(found)


@asks(app)
async def offset(
    reach: Reach,
    topic: Topic,
    queue: Annotated[int, typer.Argument(metavar="QUEUE", min=0)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0)],
    broker: Annotated[str | None, typer.Option(help="Of this broker; needed where several have the topic.")] = None,
) -> Answer:
    """The message at an offset of a queue."""
    async with reach.admin() as admin:
        brokers = [one.broker_name for one in (await admin.topics.route(topic)).brokers]
        if broker is None and len(brokers) > 1:
            refuse(f"Several brokers have this topic; say --broker, one of {', '.join(brokers)}.")
        return _whole([await admin.messages.by_offset(Queue(topic, broker or brokers[0], queue), offset)])


def _whole(found: list[Received]) -> Answer:
    return Answer([message_document(message) for message in found], "\n\n".join(message_text(message) for message in found))

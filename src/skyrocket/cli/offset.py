"""`skyrocket offset …`."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.asking import START_HELP, Reach, asks, refuse, start_of
from skyrocket.cli.printing import Answer, table
from skyrocket.client import Queue
from skyrocket.client.admin import QueueOffset

app = typer.Typer(no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]
_OFFSET = "offset:"


@asks(app)
async def show(reach: Reach, group: Group, topic: Topic) -> Answer:
    """A group's offset in each queue of a topic."""
    async with reach.admin() as admin:
        found = await admin.offsets.get(group, topic)
    return _answer(found)


@asks(app)
async def reset(
    reach: Reach,
    group: Group,
    topic: Topic,
    to: Annotated[str, typer.Option(metavar="X", help=f"{START_HELP} Or offset:42, which needs --queue.")],
    queue: Annotated[int | None, typer.Option(min=0, help="Only this queue.")] = None,
    broker: Annotated[str | None, typer.Option(help="Of this broker; needed where several have the topic.")] = None,
) -> Answer:
    """Move a group, whether its members are there or not. Messages that they have in hand they may still finish."""
    is_offset = to.startswith(_OFFSET)
    if is_offset and (queue is None or not to.removeprefix(_OFFSET).isdigit()):
        refuse("To move to an offset say --queue 0 --to offset:42.")
    start = "first" if is_offset else start_of(to)
    async with reach.admin() as admin:
        if queue is None:
            return _answer(await admin.offsets.reset(group, topic, start))
        brokers = [one.broker_name for one in (await admin.topics.route(topic)).brokers]
        if broker is None and len(brokers) > 1:
            refuse(f"Several brokers have this topic; say --broker, one of {', '.join(brokers)}.")
        wanted = Queue(topic, broker or brokers[0], queue)
        if is_offset:
            offset: int | None = int(to.removeprefix(_OFFSET))
        else:
            offset = (await admin.offsets.at(topic, start)).get(wanted)
        if offset is None:
            refuse(f"There is no {wanted}.")
        return _answer(await admin.offsets.set(group, {wanted: offset}))


@asks(app)
async def clone(
    reach: Reach,
    source: Annotated[str, typer.Argument(metavar="FROM_GROUP")],
    target: Annotated[str, typer.Argument(metavar="TO_GROUP")],
    topic: Topic,
) -> Answer:
    """Give a group the offsets that another has."""
    async with reach.admin() as admin:
        return _answer(await admin.offsets.clone(source, target, topic))


def _answer(found: list[QueueOffset]) -> Answer:
    rows = [(one.group, one.topic, one.broker_name, one.queue_id, "-" if one.offset is None else one.offset) for one in found]
    return Answer(found, table(("GROUP", "TOPIC", "BROKER", "QUEUE", "OFFSET"), rows))

"""`skyrocket topic …`."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.asking import Reach, asks, pairs
from skyrocket.cli.printing import Answer, message_document, message_line, moment, table
from skyrocket.client.admin import TopicSettings

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC")]
OnlyCluster = Annotated[str | None, typer.Option(help="Only at the brokers of this cluster.")]


@asks(app)
async def create(
    reach: Reach,
    topic: Name,
    queues: Annotated[int | None, typer.Option(min=1, help="At each broker, to read and to write; 8 for a new topic.")] = None,
    read_queues: Annotated[int | None, typer.Option(min=1)] = None,
    write_queues: Annotated[int | None, typer.Option(min=1)] = None,
    permission: Annotated[str | None, typer.Option("--permission", "--perm", help="rw, r, w or -.")] = None,
    order: Annotated[bool | None, typer.Option("--order/--no-order", help="Its queues are laid down at the nameservers.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Such as message.type=FIFO; an empty value takes it away.")
    ] = None,
    cluster: OnlyCluster = None,
    broker: Annotated[list[str] | None, typer.Option(help="Only at this broker, by name.")] = None,
) -> Answer:
    """Make a topic, or change one: what is not said stays."""
    attributes = {name: value or None for name, value in pairs(attribute, "An attribute").items()}
    async with reach.admin() as admin:
        settings = await admin.topics.create(
            topic,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            permission=permission,
            order=order,
            attributes=attributes,
            cluster=cluster,
            brokers=broker or None,
        )
    return Answer(settings, _settings(settings))


@asks(app)
async def delete(reach: Reach, topic: Name, cluster: OnlyCluster = None) -> Answer:
    """Delete a topic. Its messages cannot be read any more, and groups lose their offsets in it."""
    async with reach.admin() as admin:
        await admin.topics.delete(topic, cluster=cluster)
    return Answer({"deleted": topic}, f"Topic {topic} is gone.")


@asks(app, "list")
async def list_all(
    reach: Reach,
    everything: Annotated[bool, typer.Option("--all", help="The system's, retry and dead-letter topics too.")] = False,
) -> Answer:
    """The names of the topics."""
    async with reach.admin() as admin:
        names = await admin.topics.names(internal=everything)
    return Answer(names, "\n".join(names) or "There are no topics.")


@asks(app)
async def show(reach: Reach, topic: Name) -> Answer:
    """A topic's settings, queues and groups."""
    async with reach.admin() as admin:
        settings, status = await admin.topics.get(topic), await admin.topics.status(topic)
        groups = await admin.topics.groups(topic)
    rows = [
        (row.broker_name, row.queue_id, row.first_offset, row.end_offset, row.messages, moment(row.updated_ms))
        for row in status.queues
    ]
    parts = (
        _settings(settings),
        table(("BROKER", "QUEUE", "FIRST", "END", "MESSAGES", "LAST MESSAGE"), rows),
        f"Groups: {', '.join(groups) or 'none'}.",
    )
    return Answer({"settings": settings, "status": status, "groups": groups}, "\n\n".join(parts))


@asks(app)
async def route(reach: Reach, topic: Name) -> Answer:
    """Where a topic is: what the nameservers tell clients."""
    async with reach.admin() as admin:
        found = await admin.topics.route(topic)
    rows = [
        (one.broker_name, one.cluster, one.read_queues, one.write_queues, one.permission, _addresses(one.addresses))
        for one in found.brokers
    ]
    return Answer(found, table(("BROKER", "CLUSTER", "READ QUEUES", "WRITE QUEUES", "PERMISSION", "ADDRESSES"), rows))


@asks(app)
async def peek(
    reach: Reach,
    topic: Name,
    count: Annotated[int, typer.Option("-c", "--count", min=1, max=10_000, help="At most so many.")] = 10,
    tag: Annotated[str, typer.Option(help="Only these: a || b.")] = "*",
) -> Answer:
    """A topic's newest messages. Nobody's offset moves."""
    async with reach.admin() as admin:
        found = await admin.messages.peek(topic, most=count, expression=tag)
    lines = "\n".join(message_line(message) for message in found)
    return Answer([message_document(message) for message in found], lines or f"Topic {topic} has no messages.")


def _settings(settings: list[TopicSettings]) -> str:
    rows = [
        (
            one.topic,
            one.broker_name,
            one.read_queues,
            one.write_queues,
            one.permission,
            "yes" if one.is_ordered else "no",
            ", ".join(f"{name}={value}" for name, value in sorted(one.attributes.items())) or "-",
        )
        for one in settings
    ]
    return table(("TOPIC", "BROKER", "READ QUEUES", "WRITE QUEUES", "PERMISSION", "ORDERED", "ATTRIBUTES"), rows)


def _addresses(addresses: dict[int, str]) -> str:
    return ", ".join(f"{address} ({'master' if number == 0 else f'slave {number}'})" for number, address in addresses.items())

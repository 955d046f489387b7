"""`skyrocket topic …`: create, change, list, show, peek into and delete topics."""

from __future__ import annotations

from typing import Annotated

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command, parse_pairs
from skyrocket.cli.confirmation import Plan
from skyrocket.cli.names import TopicName
from skyrocket.cli.output import CommandResult, format_table, format_time, message_line
from skyrocket.client import Admin
from skyrocket.client.admin import TopicSettings
from skyrocket.client.helpers.message_document import message_document

app = typer.Typer(no_args_is_help=True)

OnlyCluster = Annotated[str | None, typer.Option(help="Only on the brokers of this cluster.")]


@cluster_command(app)
async def create(
    options: CommandOptions,
    topic: TopicName,
    queues: Annotated[int | None, typer.Option(min=1, help="Read and write queues on each broker; 8 for a new topic.")] = None,
    read_queues: Annotated[int | None, typer.Option(min=1, help="Read queues on each broker.")] = None,
    write_queues: Annotated[int | None, typer.Option(min=1, help="Write queues on each broker.")] = None,
    permission: Annotated[str | None, typer.Option("--permission", "--perm", help="rw, r, w or -.")] = None,
    order: Annotated[
        bool | None, typer.Option("--order/--no-order", help="Whether nameservers keep a fixed order of its queues.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An attribute, such as message.type=FIFO. An empty value removes it."),
    ] = None,
    broker_cluster: OnlyCluster = None,
    broker: Annotated[list[str] | None, typer.Option(help="Only on the broker with this name. Repeat it for more.")] = None,
) -> CommandResult:
    """Create a topic, or change the given settings of an existing one."""
    attributes = {name: value or None for name, value in parse_pairs(attribute, "An attribute").items()}
    async with options.admin() as admin:
        settings = await admin.topics.create(
            topic,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            permission=permission,
            order=order,
            attributes=attributes,
            cluster=broker_cluster,
            brokers=broker or None,
        )
    return CommandResult(settings, _settings(settings))


@cluster_command(app, destroys=True)
async def delete(options: CommandOptions, topic: TopicName, broker_cluster: OnlyCluster = None) -> CommandResult:
    """Delete a topic, with its messages and the offsets that groups have in it."""
    async with options.admin() as admin:
        if options.confirmation.needs_plan:
            plan = await _plan_deletion(admin, topic)
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        await admin.topics.delete(topic, cluster=broker_cluster)
    return CommandResult({"deleted": topic}, f"Topic {topic} is deleted.")


async def _plan_deletion(admin: Admin, topic: str) -> Plan:
    status, groups = await admin.topics.status(topic), await admin.topics.groups(topic)
    readers = f" Groups that read it: {', '.join(groups)}." if groups else ""
    return Plan(
        f"Topic {topic} will be deleted, with its {status.messages:,} messages and the offsets of groups in it.{readers}",
        {"topic": topic, "messages": status.messages, "groups": groups},
    )


@cluster_command(app, "list")
async def list_all(
    options: CommandOptions,
    everything: Annotated[bool, typer.Option("--all", help="Include system, retry and dead-letter topics.")] = False,
) -> CommandResult:
    """List the names of the topics."""
    async with options.admin() as admin:
        names = await admin.topics.names(internal=everything)
    return CommandResult(names, "\n".join(names) or "There are no topics.")


@cluster_command(app)
async def show(options: CommandOptions, topic: TopicName) -> CommandResult:
    """Show a topic's settings, queues and groups."""
    async with options.admin() as admin:
        settings, status = await admin.topics.get(topic), await admin.topics.status(topic)
        groups = await admin.topics.groups(topic)
    rows = [
        (row.broker_name, row.queue_id, row.first_offset, row.end_offset, row.messages, format_time(row.updated_ms))
        for row in status.queues
    ]
    parts = (
        _settings(settings),
        format_table(("BROKER", "QUEUE", "FIRST", "END", "MESSAGES", "LAST MESSAGE"), rows),
        f"Groups: {', '.join(groups) or 'none'}.",
    )
    return CommandResult({"settings": settings, "status": status, "groups": groups}, "\n\n".join(parts))


@cluster_command(app)
async def route(options: CommandOptions, topic: TopicName) -> CommandResult:
    """Show a topic's route: its brokers and their addresses, as clients get them from the nameservers."""
    async with options.admin() as admin:
        found = await admin.topics.route(topic)
    rows = [
        (one.broker_name, one.cluster, one.read_queues, one.write_queues, one.permission, _addresses(one.addresses))
        for one in found.brokers
    ]
    return CommandResult(
        found, format_table(("BROKER", "CLUSTER", "READ QUEUES", "WRITE QUEUES", "PERMISSION", "ADDRESSES"), rows)
    )


@cluster_command(app)
async def peek(
    options: CommandOptions,
    topic: TopicName,
    count: Annotated[int, typer.Option("-c", "--count", min=1, max=10_000, help="At most this many messages.")] = 10,
    tag: Annotated[str, typer.Option(help="Only messages with these tags: a || b.")] = "*",
) -> CommandResult:
    """Show a topic's newest messages. No offset changes."""
    async with options.admin() as admin:
        found = await admin.messages.peek(topic, most=count, expression=tag)
    lines = "\n".join(message_line(message) for message in found)
    none = f"Topic {topic} has no messages." if tag == "*" else f"None of the newest messages of topic {topic} has tag {tag}."
    return CommandResult([message_document(message) for message in found], lines or none)


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
    return format_table(("TOPIC", "BROKER", "READ QUEUES", "WRITE QUEUES", "PERMISSION", "ORDERED", "ATTRIBUTES"), rows)


def _addresses(addresses: dict[int, str]) -> str:
    return ", ".join(f"{address} ({'master' if number == 0 else f'slave {number}'})" for number, address in addresses.items())

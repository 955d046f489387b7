"""`skyrocket query …`: find messages by key, id, queue offset or time, and what clients traced about a message."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from skyrocket.cli.cluster_command import (
    START_HELP,
    TIME_HELP,
    CommandOptions,
    choose_broker,
    cluster_command,
    parse_start,
    parse_time_ms,
    refuse,
)
from skyrocket.cli.names import TopicName
from skyrocket.cli.output import (
    CommandResult,
    body_text,
    format_table,
    format_time,
    message_line,
    message_text,
)
from skyrocket.cli.progress_bar import is_terminal, show_progress
from skyrocket.client import ConfigurationError, NotFoundError, Queue, Received
from skyrocket.client.helpers.message_document import message_document
from skyrocket.pipelines.progress import JobProgress
from skyrocket.protocol.message.trace import TraceRow, TraceType
from skyrocket.protocol.system_names import TRACE_TOPIC

app = typer.Typer(no_args_is_help=True)


@cluster_command(app)
async def key(
    options: CommandOptions,
    topic: TopicName,
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
async def by_id(
    options: CommandOptions, topic: TopicName, message_id: Annotated[str, typer.Argument(metavar="ID")]
) -> CommandResult:
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
    topic: TopicName,
    queue: Annotated[int, typer.Argument(metavar="QUEUE", min=0)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0)],
    broker: Annotated[str | None, typer.Option(help="The queue's broker. Required when several brokers have the topic.")] = None,
) -> CommandResult:
    """Show the message at an offset of a queue."""
    async with options.admin() as admin:
        holder = await choose_broker(admin, topic, broker)
        return _result([await admin.messages.by_offset(Queue(topic, holder, queue), offset)])


@cluster_command(app)
async def time(
    options: CommandOptions,
    topic: TopicName,
    since: Annotated[str, typer.Option("--from", metavar="TIME", help=f"Messages stored since this time: {TIME_HELP}.")],
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Messages stored before this time. Default: now.")
    ] = None,
    tag: Annotated[str, typer.Option(help="Only messages with these tags: a || b.")] = "*",
    count: Annotated[int, typer.Option("-c", "--count", min=1, max=10_000, help="At most this many, the oldest ones.")] = 100,
) -> CommandResult:
    """List the messages that a topic stored in a time range, oldest first."""
    begin_ms = parse_time_ms(since, "--from")
    end_ms = None if until is None else parse_time_ms(until, "--to")
    if end_ms is not None and end_ms <= begin_ms:
        refuse(f"--to {until} is not after --from {since}.")
    found: list[Received] = []
    searched = 0
    async with options.admin() as admin:
        begins = await admin.offsets.at(topic, begin_ms)
        ends = await admin.offsets.at(topic, "last" if end_ms is None else end_ms)
        with show_progress("searching", is_shown=is_terminal()) as on_progress:
            for queue, begin in begins.items():
                end = max(begin, ends.get(queue, begin))
                in_range = 0
                async for message in admin.messages.read_queue(queue, begin, end, expression=tag):
                    if begin_ms <= message.stored_ms and (end_ms is None or message.stored_ms < end_ms):
                        found.append(message)
                        in_range += 1
                    if in_range > count:  # one more than is shown tells that there are more
                        break
                searched += 1
                found = sorted(found, key=lambda one: (one.stored_ms, one.queue_offset))[: count + 1]
                on_progress(JobProgress("searching", searched, len(begins), "queues"))
    lines = [message_line(message) for message in found[:count]]
    if len(found) > count:
        lines.append(f"There are more than {count}. Continue with --from {found[count].stored_ms}, or ask for more with --count.")
    none = f"Topic '{topic}' has stored no such message in that time."
    return CommandResult([message_document(message) for message in found[:count]], "\n".join(lines) or none)


@cluster_command(app)
async def trace(
    options: CommandOptions,
    message: Annotated[str, typer.Argument(metavar="ID|KEY", help="The unique id of a message, or one of its keys.")],
    topic: Annotated[str, typer.Option(help="The trace topic.")] = TRACE_TOPIC,
) -> CommandResult:
    """List what producers and consumers traced about a message: sends, consumptions, ends of transactions, recalls."""
    async with options.admin() as admin:
        steps = await admin.messages.trace(message, topic=topic)
    head = ("time", "event", "group", "client", "result", "ms", "id", "details")
    rows = [
        (
            *(format_time(step.row.time_ms), step.row.type.value, step.row.group or "-", step.client_host),
            *(_trace_status(step.row), step.row.cost_ms, step.row.message_id, _trace_details(step.row)),
        )
        for step in steps
    ]
    return CommandResult(msgspec.to_builtins(steps), format_table(head, rows, f"Topic '{topic}' has no trace of '{message}'."))


def _trace_status(row: TraceRow) -> str:
    if row.type is TraceType.SUB_BEFORE:
        return "-"
    if row.type is TraceType.END_TRANSACTION:
        return row.transaction_state
    return "success" if row.success else "failed"


def _trace_details(row: TraceRow) -> str:
    """Say what only rows of this type have."""
    texts: dict[TraceType, str] = {
        TraceType.PUB: f"topic {row.topic}, stored at {row.store_host}, {row.body_bytes} bytes",
        TraceType.SUB_BEFORE: f"retries {row.retry_times}, request {row.request_id}",
        TraceType.SUB_AFTER: f"request {row.request_id}",
        TraceType.END_TRANSACTION: f"topic {row.topic}{', checked back' if row.from_check else ''}",
        TraceType.RECALL: f"topic {row.topic}",
    }
    return body_text(texts[row.type].encode())


def _result(found: list[Received]) -> CommandResult:
    return CommandResult(
        [message_document(message) for message in found], "\n\n".join(message_text(message) for message in found)
    )

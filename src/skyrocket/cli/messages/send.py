"""`skyrocket send`: send messages and print their receipts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command, parse_pairs, refuse
from skyrocket.cli.names import TopicName
from skyrocket.cli.output import to_json
from skyrocket.client import Message, Producer, Receipt

app = typer.Typer(add_completion=False)
_STANDARD_INPUT: Final = "-"
_GROUP: Final = "skyrocket-send"


@cluster_command(app, "send")
async def send(
    options: CommandOptions,
    topic: TopicName,
    body: Annotated[str | None, typer.Option("-b", "--body", help="The body, as text.")] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="A file with the body; - reads standard input.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Send each line of --file as one message.")] = False,
    tag: Annotated[str, typer.Option(help="The message's tag.", show_default=False)] = "",
    key: Annotated[list[str] | None, typer.Option(help="A key to query the message by. Repeat it for more.")] = None,
    prop: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property. Repeat it for more.")
    ] = None,
    sharding_key: Annotated[
        str, typer.Option(help="Messages with the same sharding key stay in order.", show_default=False)
    ] = "",
    delay: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Deliver the message after this time.")] = None,
    delay_level: Annotated[
        int, typer.Option(min=0, max=18, help="Deliver the message after the delay of this level: 1 is 1 s, 18 is 2 h.")
    ] = 0,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Send the message this many times.")] = 1,
    group: Annotated[str, typer.Option(help="The producer group.")] = _GROUP,
) -> None:
    """Send one message or many, and print the receipt of each."""
    if (body is None) == (file is None):
        refuse("Give the body with either --body TEXT or --file FILE (- reads standard input).")
    if lines and file is None:
        refuse("--lines needs --file FILE (- reads standard input).")
    properties = parse_pairs(prop, "A property")
    async with Producer(options.nameservers, group=group, **options.client_options) as producer:
        for content in _bodies(body, file, lines=lines):
            for _ in range(count):
                message = Message(
                    topic,
                    content,
                    tag=tag,
                    keys=key or (),
                    properties=properties,
                    sharding_key=sharding_key,
                    deliver_in=None if delay is None else timedelta(seconds=delay),
                    delay_level=delay_level,
                )
                _print(await producer.send(message), options)


def _bodies(body: str | None, file: str | None, *, lines: bool) -> Iterator[bytes]:
    if body is not None:
        yield body.encode(errors="surrogateescape")  # bytes that are not UTF-8 are sent unchanged
        return
    assert file is not None
    if not lines:
        yield sys.stdin.buffer.read() if file == _STANDARD_INPUT else Path(file).read_bytes()
        return
    with sys.stdin.buffer if file == _STANDARD_INPUT else Path(file).open("rb") as stream:
        for line in stream:
            content = line.rstrip(b"\r\n")
            if content:  # brokers refuse an empty body
                yield content


def _print(receipt: Receipt, options: CommandOptions) -> None:
    topic, broker_name, queue_id = receipt.queue
    document = {
        "status": receipt.status,
        "msgId": receipt.message_id,
        "offsetId": receipt.offset_id,
        "topic": topic,
        "brokerName": broker_name,
        "queueId": queue_id,
        "queueOffset": receipt.queue_offset,
        "recallHandle": receipt.recall_handle,
    }
    line = f"{receipt.status}  {receipt.message_id}  {topic}/{broker_name}/{queue_id}@{receipt.queue_offset}"
    typer.echo(to_json(document) if options.as_json else line)

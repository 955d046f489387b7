"""`skyrocket send`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from skyrocket.cli.asking import Reach, asks, pairs, refuse
from skyrocket.cli.printing import as_json
from skyrocket.client import Message, Producer, Receipt

app = typer.Typer(add_completion=False)
_STANDARD_INPUT: Final = "-"
_GROUP: Final = "skyrocket-send"


@asks(app, "send")
async def send(
    reach: Reach,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    body: Annotated[str | None, typer.Option("-b", "--body", help="Text.")] = None,
    file: Annotated[str | None, typer.Option("-f", "--file", metavar="FILE", help="Of the body; - is standard input.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of --file is a message of its own.")] = False,
    tag: Annotated[str, typer.Option(show_default=False)] = "",
    key: Annotated[list[str] | None, typer.Option(help="To find it by; several may be given.")] = None,
    prop: Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE")] = None,
    sharding_key: Annotated[str, typer.Option(help="Messages with one key stay in order.", show_default=False)] = "",
    delay: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Deliver it so much later.")] = None,
    delay_level: Annotated[int, typer.Option(min=0, max=18, help="The same by level: 1 is 1 s, 18 is 2 h.")] = 0,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Send it so many times.")] = 1,
    group: Annotated[str, typer.Option(help="The producer's group.")] = _GROUP,
) -> None:
    """Send a message, or many. Prints the receipt of each."""
    if (body is None) == (file is None):
        refuse("Say what to send: --body TEXT, or --file FILE (- reads standard input).")
    if lines and file is None:
        refuse("--lines needs --file.")
    properties = pairs(prop, "A property")
    async with Producer(reach.nameservers, group=group, **reach.options) as producer:
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
                _print(await producer.send(message), reach)


def _bodies(body: str | None, file: str | None, *, lines: bool) -> Iterator[bytes]:
    if body is not None:
        yield body.encode(errors="surrogateescape")  # what was no text on the command line goes as it was
        return
    assert file is not None
    if not lines:
        yield sys.stdin.buffer.read() if file == _STANDARD_INPUT else Path(file).read_bytes()
        return
    with sys.stdin.buffer if file == _STANDARD_INPUT else Path(file).open("rb") as stream:
        for line in stream:
            content = line.rstrip(b"\r\n")
            if content:  # brokers take no empty body
                yield content


def _print(receipt: Receipt, reach: Reach) -> None:
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
    typer.echo(as_json(document) if reach.as_json else line)

"""`skyrocket bench`: a quick load against a cluster, on a topic of its own that it deletes again."""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from contextlib import suppress
from typing import Annotated, Final

import typer

from skyrocket.cli.cluster_command import CommandOptions, cluster_command
from skyrocket.cli.exit_codes import FAILED
from skyrocket.cli.messages.load_figures import LoadFigures
from skyrocket.cli.output import CommandResult, format_table
from skyrocket.cli.progress_bar import is_terminal, show_progress
from skyrocket.client import Admin, ClientError, Consumer, Message, Producer
from skyrocket.pipelines.progress import JobProgress, OnProgress

app = typer.Typer(add_completion=False)

DRAIN_S_MAX: Final = 10.0  # that consumers may take for what was sent, once no message has come for so long
_SENT_AT: Final = struct.Struct(">Q")  # the beginning of a body: when it was sent, in nanoseconds of this process's clock
_PREFIX: Final = "skyrocket-bench"
_LOOK_S: Final = 0.2
_MESSAGES_AT_ONCE: Final = 32


@cluster_command(app, "bench")
async def bench(
    options: CommandOptions,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="How long to send.")] = 5.0,
    size: Annotated[int, typer.Option(min=_SENT_AT.size, max=4_000_000, help="Bytes of a body.")] = 1024,
    in_flight: Annotated[int, typer.Option(min=1, max=10_000, help="Sends that wait for an answer at the same time.")] = 64,
    queues: Annotated[int, typer.Option(min=1, max=1024, help="Queues of the topic at each broker.")] = 4,
    receive: Annotated[bool, typer.Option("--receive/--no-receive", help="Also consume the messages meanwhile.")] = True,
) -> CommandResult:
    """Measure a cluster with a quick load: rate and latencies of sends, and of messages from send to consumer.

    It creates a topic and a group of its own, and deletes them. One process sends: a fast cluster can do more. The exit code is 1
    when a send failed or a message did not arrive.
    """
    name = f"{_PREFIX}-{uuid.uuid4().hex[:8]}"
    sent, received = LoadFigures(), LoadFigures()
    async with options.admin() as admin:
        await admin.topics.create(name, queues=queues)
        try:
            if receive:
                await admin.groups.create(name)
            with show_progress("sending", is_shown=is_terminal()) as on_progress:
                await _run_load(options, name, (seconds, size, in_flight), sent, received if receive else None, on_progress)
        finally:
            await _remove(admin, name, has_group=receive)
    parts = {"send": sent.document(size), **({"receive": received.document(size)} if receive else {})}
    heads = ("messages", "errors", "messagesPerSecond", "megabytesPerSecond", "p50Ms", "p99Ms", "maxMs")
    table = format_table(
        ("", "MESSAGES", "ERRORS", "PER SECOND", "MB/S", "P50 MS", "P99 MS", "MAX MS"),
        [(direction, *(figures[head] for head in heads)) for direction, figures in parts.items()],
    )
    missing = sent.latencies.count - received.latencies.count if receive else 0
    text = f"{table}\n{missing} messages did not arrive." if missing > 0 else table
    document = {"seconds": seconds, "bodyBytes": size, "inFlight": in_flight, "queues": queues, **parts}
    return CommandResult(document, text, FAILED if sent.errors or missing > 0 else 0)


async def _run_load(
    options: CommandOptions,
    name: str,
    load: tuple[float, int, int],
    sent: LoadFigures,
    received: LoadFigures | None,
    on_progress: OnProgress,
) -> None:
    seconds, size, in_flight = load
    async with Producer(options.nameservers, group=name, **options.client_options) as producer:
        if received is None:
            await _send_all(producer, name, seconds, size, in_flight, sent, on_progress)
            return
        async with Consumer(options.nameservers, group=name, topics=name, start="first", **options.client_options) as consumer:
            receiving = asyncio.create_task(_receive_all(consumer, received))
            try:
                await _send_all(producer, name, seconds, size, in_flight, sent, on_progress)
                await _drain(sent, received)
            finally:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)


async def _send_all(
    producer: Producer, topic: str, seconds: float, size: int, in_flight: int, sent: LoadFigures, on_progress: OnProgress
) -> None:
    rest = bytes(size - _SENT_AT.size)
    started = time.perf_counter_ns()
    stop = started + int(seconds * 1e9)

    async def send_one_after_another() -> None:
        while (begun := time.perf_counter_ns()) < stop:
            try:
                await producer.send(Message(topic, _SENT_AT.pack(begun) + rest))
                sent.latencies.add((time.perf_counter_ns() - begun) / 1000)
            except ClientError:
                sent.errors += 1

    async def report() -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            on_progress(JobProgress("sending", sent.latencies.count))

    reporting = asyncio.create_task(report())
    try:
        await asyncio.gather(*(send_one_after_another() for _ in range(in_flight)))
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
    sent.seconds = (time.perf_counter_ns() - started) / 1e9


async def _receive_all(consumer: Consumer, received: LoadFigures) -> None:
    first_ns = 0
    while messages := await consumer.messages(_MESSAGES_AT_ONCE):
        now_ns = time.perf_counter_ns()
        first_ns = first_ns or now_ns
        for message in messages:
            received.latencies.add((now_ns - _SENT_AT.unpack_from(message.body)[0]) / 1000)
        received.seconds = (time.perf_counter_ns() - first_ns) / 1e9


async def _drain(sent: LoadFigures, received: LoadFigures) -> None:
    """Wait until everything has arrived, or nothing more comes."""
    last, silent_s = received.latencies.count, 0.0
    while received.latencies.count < sent.latencies.count and silent_s < DRAIN_S_MAX:
        await asyncio.sleep(_LOOK_S)
        silent_s = silent_s + _LOOK_S if received.latencies.count == last else 0.0
        last = received.latencies.count


async def _remove(admin: Admin, name: str, *, has_group: bool) -> None:
    with suppress(ClientError):  # the cluster may be gone: its error is the one to show
        await admin.topics.delete(name)
    if has_group:
        with suppress(ClientError):
            await admin.groups.delete(name, topics=True)

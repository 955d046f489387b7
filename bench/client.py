"""Cost of the client: CPU time of its process per message, with our broker in another process.

Sends: 1 KiB, 64 in flight, one task each, with and without automatic batching, on asyncio's own loop and on uvloop. Receives: a
loop that reads each body, an async handler, and polls of a pull consumer, from four queues. The best of several rounds counts.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.processes.skyrocket_process import Skyrocket

from bench import Figure
from skyrocket.client import Consumer, Message, Producer, PullConsumer, Received

TOPIC = "BenchTopic"
RECEIVES = 20_000
RECEIVE_ROUNDS = max(2, int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "30")) // 5)
SENDS, IN_FLIGHT, BODY_BYTES = 5_120, 64, 1024
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "30"))
STORE = {"mappedFileSizeCommitLog": 1 << 30, "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000}


async def sends(nameserver: str, in_flight: int, **options: Any) -> float:
    """Return the CPU µs of a send in the best round."""
    body = b"x" * BODY_BYTES
    best_s = float("inf")
    async with Producer(nameserver, timeout_ms=30_000, **options) as producer:

        async def worker(count: int) -> None:
            for _ in range(count):
                await producer.send(Message(TOPIC, body, tag="web"))

        await worker(100)
        for _ in range(ROUNDS):
            gc.collect()
            started_s = time.process_time()
            await asyncio.gather(*(worker(SENDS // in_flight) for _ in range(in_flight)))
            best_s = min(best_s, time.process_time() - started_s)
    return best_s / SENDS * 1e6


async def fill(nameserver: str, topic: str, body_bytes: int) -> None:
    async with Producer(nameserver, timeout_ms=30_000, linger_ms=1) as producer:
        for _ in range(RECEIVES // 1_000 + 1):
            await asyncio.gather(*(producer.send(Message(topic, b"x" * body_bytes, tag="web")) for _ in range(1_000)))


async def receive_in_a_loop(nameserver: str, topic: str, group: str) -> float:
    """Return the CPU µs of a message in one round, without the first thousand."""
    count = size = 0
    async with Consumer(nameserver, group=group, topics=topic, start="first") as consumer:
        async for message in consumer:
            count += 1
            size += len(message.body)
            if count == 1_000:
                gc.collect()
                started_s = time.process_time()
            elif count == RECEIVES:
                break
        return (time.process_time() - started_s) / (RECEIVES - 1_000) * 1e6


async def receive_by_a_handler(nameserver: str, topic: str, group: str) -> float:
    count = size = 0
    times_s: list[float] = []
    consumer = Consumer(nameserver, group=group, start="first")

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        nonlocal count, size
        count += 1
        size += len(message.body)
        if count in (1_000, RECEIVES):
            times_s.append(time.process_time())
            if count == RECEIVES:
                consumer.stop()

    await consumer.run()
    return (times_s[1] - times_s[0]) / (RECEIVES - 1_000) * 1e6


async def receive_by_polls(nameserver: str, topic: str, group: str) -> float:
    count = size = 0
    async with PullConsumer(nameserver, group=group, start="first") as consumer:
        await consumer.assign(await consumer.queues(topic))
        started_s, begun = 0.0, 0
        while count < RECEIVES:
            for message in await consumer.poll():
                count += 1
                size += len(message.body)
            if not begun and count > 1_000:
                started_s, begun = time.process_time(), count
        return (time.process_time() - started_s) / (count - begun) * 1e6


WAYS = {"in a loop": receive_in_a_loop, "by an async handler": receive_by_a_handler, "by polls": receive_by_polls}


def receive_figures(nameserver: str) -> Iterator[Figure]:
    topics = {128: "BenchSmall", BODY_BYTES: "BenchLarge"}
    for body_bytes, topic in topics.items():
        asyncio.run(fill(nameserver, topic, body_bytes))
    for name, factory in loops().items():
        with asyncio.Runner(loop_factory=factory) as runner:
            for body_bytes, topic in topics.items():
                for way, receive in WAYS.items():
                    groups = (f"{topic}-{name}-{way.replace(' ', '-')}-{number}" for number in range(RECEIVE_ROUNDS))
                    best = min(runner.run(receive(nameserver, topic, group)) for group in groups)
                    yield Figure(f"CPU of a message of {body_bytes} B received {way}, {name}", f"{best:.2f} µs", "at most 3")


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop] | None]:
    found: dict[str, Callable[[], asyncio.AbstractEventLoop] | None] = {"asyncio": None}
    try:
        import uvloop  # noqa: PLC0415 — an optional extra

        found["uvloop"] = uvloop.new_event_loop
    except ImportError:
        pass
    return found


def send_figures(nameserver: str) -> Iterator[Figure]:
    for name, factory in loops().items():
        with asyncio.Runner(loop_factory=factory) as runner:
            alone = runner.run(sends(nameserver, IN_FLIGHT))
            together = runner.run(sends(nameserver, 16 * IN_FLIGHT, linger_ms=1))
        yield Figure(f"CPU of a send, {IN_FLIGHT} in flight, {name}", f"{alone:.2f} µs", "at most 12 on uvloop")
        yield Figure(
            f"CPU of a send in automatic batches, {16 * IN_FLIGHT} in flight, {name}", f"{together:.2f} µs", "at most 10"
        )


def figures() -> Iterator[Figure]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        with Skyrocket(home, STORE) as servers:
            yield from send_figures(servers.nameserver)
            yield from receive_figures(servers.nameserver)
    finally:
        shutil.rmtree(home)

"""Other clients beside ours: Apache's Java client on the same broker, aiokafka and confluent-kafka (librdkafka) on a Kafka.

Sends of 1 KiB, 64 under way, each waited for; then many more under way, batched by the client itself (5 ms of linger at most).
Receives of the same messages, from four queues or partitions. Rates say what this machine gives a client and its server together;
CPU is that of the client's process alone, its threads included. The best of several rounds counts, each figure for itself.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.apache import JAVA_OPENS, compiled, library
from tests.support.skyrocket_process import Skyrocket

from bench import Figure, _kafka
from bench.client import BODY_BYTES, IN_FLIGHT, STORE, loops
from skyrocket.client import Consumer, Message, Producer

ROUNDS = max(3, int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "30")) // 3)
MESSAGES = 20_480
MANY = 16 * IN_FLIGHT
LINGER_MS = 5
TOPIC = "BesideTopic"
BODY = b"x" * BODY_BYTES
JAVA_S_MAX = 300
JAVA = Path(__file__).with_name("java") / "ClientBench.java"


class Measured(NamedTuple):
    per_s: float
    cpu_us: float  # of a message

    def better(self, other: Measured) -> Measured:
        return Measured(max(self.per_s, other.per_s), min(self.cpu_us, other.cpu_us))


NOTHING = Measured(0.0, float("inf"))


class Watch:
    """Clock and CPU since it was made."""

    def __init__(self) -> None:
        gc.collect()
        self._started_s, self._cpu_s = time.perf_counter(), time.process_time()

    def measured(self, messages: int) -> Measured:
        cpu_s, took_s = time.process_time() - self._cpu_s, time.perf_counter() - self._started_s
        return Measured(messages / took_s, cpu_s / messages * 1e6)


def figure(what: str, measured: Measured, remark: str = "") -> Figure:
    return Figure(f"{what}: {measured.per_s:,.0f}/s", f"{measured.cpu_us:.2f} µs", remark)


async def sent(send: Callable[[], Awaitable[object]], in_flight: int) -> Measured:
    """By so many tasks, each of which waits for its acknowledgement."""

    async def worker() -> None:
        for _ in range(MESSAGES // in_flight):
            await send()

    best = NOTHING
    await send()
    for _ in range(ROUNDS):
        watch = Watch()
        await asyncio.gather(*(worker() for _ in range(in_flight)))
        best = best.better(watch.measured(MESSAGES))
    return best


async def received(messages: AsyncIterable[object]) -> Measured:
    """One after another; the first tenth, in which connections are made, does not count."""
    first, count, watch = MESSAGES // 10, 0, Watch()
    async for _ in messages:
        count += 1
        if count == first:
            watch = Watch()
        elif count == MESSAGES:
            break
    return watch.measured(MESSAGES - first)


# --- ours and Java's


async def ours_sent(nameserver: str, in_flight: int, **options: Any) -> Measured:
    async with Producer(nameserver, timeout_ms=30_000, **options) as producer:
        return await sent(lambda: producer.send(Message(TOPIC, BODY, tag="web")), in_flight)


async def ours_soon(nameserver: str) -> Measured:
    """Given without waiting for each, and looked at in the end: what librdkafka's `produce` and `flush` do, with a body only."""
    best = NOTHING
    async with Producer(nameserver, timeout_ms=30_000, linger_ms=LINGER_MS) as producer:
        await producer.send(Message(TOPIC, BODY, tag="web"))
        for _ in range(ROUNDS):
            watch, futures = Watch(), []
            for number in range(MESSAGES):
                futures.append(producer.send_soon(Message(TOPIC, BODY)))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            await producer.flush()
            assert all(future.result().is_safe for future in futures)
            best = best.better(watch.measured(MESSAGES))
    return best


async def ours_received(nameserver: str, group: str) -> Measured:
    async with Consumer(nameserver, group=group, topics=TOPIC, start="first") as consumer:
        return await received(consumer)


def java(nameserver: str) -> dict[str, Measured]:
    """Warm: the first rounds are slower, and only the best counts."""
    given = [nameserver, TOPIC, MESSAGES, IN_FLIGHT, BODY_BYTES, ROUNDS]
    command = ["java", "-Xmx512m", *JAVA_OPENS, "-cp", f"{compiled(JAVA)}:{library()}/*", JAVA.stem, *map(str, given)]
    best: dict[str, Measured] = {}
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=JAVA_S_MAX).stdout.splitlines():
        what, per_s, cpu_us = line.split()
        best[what] = best.get(what, NOTHING).better(Measured(float(per_s), float(cpu_us)))
    return best


def rocketmq_figures(home: Path) -> Iterator[Figure]:
    name, factory = list(loops().items())[-1]
    with Skyrocket(home, STORE) as servers, asyncio.Runner(loop_factory=factory) as runner:
        at = servers.nameserver
        yield figure(f"ours sends, {IN_FLIGHT} under way, {name}", runner.run(ours_sent(at, IN_FLIGHT)), "at most 12")
        soon = runner.run(ours_soon(at))
        yield figure(f"ours sends soon, {LINGER_MS} ms of linger, {name}", soon, "at most twice librdkafka")
        batched = runner.run(ours_sent(at, MANY, linger_ms=LINGER_MS))
        yield figure(f"ours sends in batches, {MANY} tasks that wait", batched)
        received = (runner.run(ours_received(at, f"beside-{number}")) for number in range(ROUNDS))
        yield figure(f"ours receives, {name}", _best(received), "at most 4")
        if _kafka.missing() is None:
            best = java(at)
            yield figure(f"Java sends, {IN_FLIGHT} under way", best["send"])
            yield figure("Java receives", best["receive"])


# --- on a Kafka


async def aiokafka_sent(address: str, in_flight: int, linger_ms: int) -> Measured:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 — not part of the environment

    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=linger_ms, max_batch_size=64 * 1024) as producer:
        return await sent(lambda: producer.send_and_wait(TOPIC, BODY), in_flight)


async def aiokafka_received(address: str, group: str) -> Measured:
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415

    options = {"bootstrap_servers": address, "group_id": group, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(TOPIC, **options) as consumer:
        return await received(consumer)


def librdkafka_sent(address: str, linger_ms: float) -> Measured:
    from confluent_kafka import Producer as Rdkafka  # noqa: PLC0415

    producer = Rdkafka({"bootstrap.servers": address, "linger.ms": linger_ms, "queue.buffering.max.messages": MESSAGES})
    best = NOTHING
    for _ in range(ROUNDS):
        errors: list[object] = []

        def delivered(error: object, _message: object, errors: list[object] = errors) -> None:
            errors.append(error)

        watch = Watch()
        for number in range(MESSAGES):
            producer.produce(TOPIC, BODY, on_delivery=delivered)
            if number % 100 == 0:
                producer.poll(0)
        producer.flush()
        best = best.better(watch.measured(MESSAGES))
        assert errors == [None] * MESSAGES
    return best


def librdkafka_received(address: str, group: str) -> Measured:
    from confluent_kafka import Consumer as Rdkafka  # noqa: PLC0415

    consumer = Rdkafka({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    first, count, begun, watch = MESSAGES // 10, 0, 0, Watch()
    while count < MESSAGES:
        count += len(consumer.consume(500, timeout=1.0))
        if not begun and count >= first:
            begun, watch = count, Watch()
    measured = watch.measured(count - begun)
    consumer.close()
    return measured


def kafka_figures(home: Path) -> Iterator[Figure]:
    _kafka.use_clients()
    with _kafka.kafka(home) as address, asyncio.Runner() as runner:
        yield figure(f"aiokafka sends, {IN_FLIGHT} under way", runner.run(aiokafka_sent(address, IN_FLIGHT, 0)))
        batched = runner.run(aiokafka_sent(address, MANY, LINGER_MS))
        yield figure(f"aiokafka sends in batches, {MANY} under way", batched)
        yield figure(f"librdkafka sends, {LINGER_MS} ms of linger", librdkafka_sent(address, LINGER_MS))
        groups = [f"beside-{number}" for number in range(ROUNDS)]
        yield figure("aiokafka receives", _best(runner.run(aiokafka_received(address, f"aio-{group}")) for group in groups))
        yield figure("librdkafka receives, lists of 500", _best(librdkafka_received(address, f"rd-{group}") for group in groups))


def _best(rounds: Iterable[Measured]) -> Measured:
    best = NOTHING
    for measured in rounds:
        best = best.better(measured)
    return best


@contextmanager
def folder() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def figures() -> Iterator[Figure]:
    with folder() as home:
        yield from rocketmq_figures(home)
    reason = _kafka.missing()
    if reason is not None:
        yield Figure("Kafka's clients", "–", f"{reason}, so there is no Kafka")
        return
    with folder() as home:
        yield from kafka_figures(home)

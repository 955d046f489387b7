"""Our client compared with Apache's Java client on the same broker, and with aiokafka and librdkafka on a Kafka.

Sends: 1 KiB, 64 in flight, each awaited; then many more in flight, in batches of the client (at most 5 ms of linger). Receives:
the same messages, from four queues or partitions. A rate is that of client and server together on this machine. CPU time is that
of the client's process alone, with its threads. Each figure is the best of several rounds.
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

from tests.support.apache.packages import JAVA_OPENS, compiled, library
from tests.support.processes.skyrocket_process import Skyrocket

from bench import Figure, _kafka
from bench.client import BODY_BYTES, IN_FLIGHT, STORE, loops
from skyrocket.client import Consumer, Message, Producer

ROUNDS = max(3, int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "30")) // 3)
TURNS, ROUNDS_OF_A_TURN = max(3, ROUNDS // 2), 3  # of two clients that are measured in turns
MESSAGES = 20_480
MANY = 16 * IN_FLIGHT
LINGER_MS = 5
TOPIC = "BesideTopic"
BODY = b"x" * BODY_BYTES
JAVA_S_MAX = 300
JAVA = Path(__file__).with_name("java") / "ClientBench.java"


class ClientRate(NamedTuple):
    per_s: float
    cpu_us: float  # per message

    def better(self, other: ClientRate) -> ClientRate:
        return ClientRate(max(self.per_s, other.per_s), min(self.cpu_us, other.cpu_us))


NOTHING = ClientRate(0.0, float("inf"))


class Watch:
    """Measures elapsed time and CPU time from its construction on."""

    def __init__(self) -> None:
        gc.collect()
        self._started_s, self._cpu_s = time.perf_counter(), time.process_time()

    def measure(self, messages: int) -> ClientRate:
        cpu_s, took_s = time.process_time() - self._cpu_s, time.perf_counter() - self._started_s
        return ClientRate(messages / took_s, cpu_s / messages * 1e6)


def figure(what: str, measured: ClientRate, remark: str = "") -> Figure:
    return Figure(f"{what}: {measured.per_s:,.0f}/s", f"{measured.cpu_us:.2f} µs", remark)


async def measure_sends(send: Callable[[], Awaitable[object]], in_flight: int) -> ClientRate:
    """Measure sends of `in_flight` tasks, each of which waits for its acknowledgement."""

    async def worker() -> None:
        for _ in range(MESSAGES // in_flight):
            await send()

    best = NOTHING
    await send()
    for _ in range(ROUNDS):
        watch = Watch()
        await asyncio.gather(*(worker() for _ in range(in_flight)))
        best = best.better(watch.measure(MESSAGES))
    return best


async def measure_receives(messages: AsyncIterable[object]) -> ClientRate:
    """Measure the iteration over messages. The first tenth does not count, since the client connects during it."""
    first, count, watch = MESSAGES // 10, 0, Watch()
    async for _ in messages:
        count += 1
        if count == first:
            watch = Watch()
        elif count == MESSAGES:
            break
    return watch.measure(MESSAGES - first)


# --- RocketMQ: our client and Java's


async def our_sends(nameserver: str, in_flight: int, **options: Any) -> ClientRate:
    async with Producer(nameserver, timeout_ms=30_000, **options) as producer:
        return await measure_sends(lambda: producer.send(Message(TOPIC, BODY, tag="web")), in_flight)


async def our_soon_sends(nameserver: str, body: bytes = BODY, rounds: int = ROUNDS) -> ClientRate:
    """Measure `send_soon` and `flush`, the counterparts of librdkafka's `produce` and `flush`; check the results at the end."""
    best = NOTHING
    async with Producer(nameserver, timeout_ms=30_000, linger_ms=LINGER_MS) as producer:
        await producer.send(Message(TOPIC, body, tag="web"))
        for _ in range(rounds):
            watch, futures = Watch(), []
            for number in range(MESSAGES):
                futures.append(producer.send_soon(Message(TOPIC, body)))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            await producer.flush()
            assert all(future.result().is_safe for future in futures)
            best = best.better(watch.measure(MESSAGES))
    return best


async def our_receives(nameserver: str, group: str) -> ClientRate:
    async with Consumer(nameserver, group=group, topics=TOPIC, start="first") as consumer:
        return await measure_receives(consumer)


def java(nameserver: str) -> dict[str, ClientRate]:
    """Measure Java's client. The first rounds warm the JVM up, since only the best round counts."""
    given = [nameserver, TOPIC, MESSAGES, IN_FLIGHT, BODY_BYTES, ROUNDS]
    command = ["java", "-Xmx512m", *JAVA_OPENS, "-cp", f"{compiled(JAVA)}:{library()}/*", JAVA.stem, *map(str, given)]
    best: dict[str, ClientRate] = {}
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=JAVA_S_MAX).stdout.splitlines():
        what, per_s, cpu_us = line.split()
        best[what] = best.get(what, NOTHING).better(ClientRate(float(per_s), float(cpu_us)))
    return best


def rocketmq_figures(home: Path) -> Iterator[Figure]:
    name, factory = list(loops().items())[-1]
    with Skyrocket(home, STORE) as servers, asyncio.Runner(loop_factory=factory) as runner:
        at = servers.nameserver
        yield figure(f"ours sends, {IN_FLIGHT} in flight, {name}", runner.run(our_sends(at, IN_FLIGHT)), "at most 12")
        batched = runner.run(our_sends(at, MANY, linger_ms=LINGER_MS))
        yield figure(f"ours sends in batches, {MANY} waiting tasks", batched)
        rounds = (runner.run(our_receives(at, f"beside-{number}")) for number in range(ROUNDS))
        yield figure(f"ours receives, {name}", _best(rounds), "at most 3")
        if _kafka.missing() is None:
            best = java(at)
            yield figure(f"Java sends, {IN_FLIGHT} in flight", best["send"])
            yield figure("Java receives", best["receive"])


# --- Kafka: aiokafka and librdkafka


async def aiokafka_sends(address: str, in_flight: int, linger_ms: int) -> ClientRate:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 — not part of the development environment

    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=linger_ms, max_batch_size=64 * 1024) as producer:
        return await measure_sends(lambda: producer.send_and_wait(TOPIC, BODY), in_flight)


async def aiokafka_receives(address: str, group: str) -> ClientRate:
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415

    options = {"bootstrap_servers": address, "group_id": group, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(TOPIC, **options) as consumer:
        return await measure_receives(consumer)


def librdkafka_sends(address: str, linger_ms: float, body: bytes = BODY, rounds: int = ROUNDS) -> ClientRate:
    from confluent_kafka import Producer as Rdkafka  # noqa: PLC0415

    producer = Rdkafka({"bootstrap.servers": address, "linger.ms": linger_ms, "queue.buffering.max.messages": MESSAGES})
    best = NOTHING
    for _ in range(rounds):
        errors: list[object] = []

        def on_delivery(error: object, _message: object, errors: list[object] = errors) -> None:
            errors.append(error)

        watch = Watch()
        for number in range(MESSAGES):
            producer.produce(TOPIC, body, on_delivery=on_delivery)
            if number % 100 == 0:
                producer.poll(0)
        producer.flush()
        best = best.better(watch.measure(MESSAGES))
        assert errors == [None] * MESSAGES
    return best


def librdkafka_receives(address: str, group: str) -> ClientRate:
    from confluent_kafka import Consumer as Rdkafka  # noqa: PLC0415

    consumer = Rdkafka({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    first, count, begun, watch = MESSAGES // 10, 0, 0, Watch()
    while count < MESSAGES:
        count += len(consumer.consume(500, timeout=1.0))
        if not begun and count >= first:
            begun, watch = count, Watch()
    measured = watch.measure(count - begun)
    consumer.close()
    return measured


def kafka_figures(home: Path) -> Iterator[Figure]:
    _kafka.use_clients()
    with _kafka.kafka(home) as address, asyncio.Runner() as runner:
        yield figure(f"aiokafka sends, {IN_FLIGHT} in flight", runner.run(aiokafka_sends(address, IN_FLIGHT, 0)))
        batched = runner.run(aiokafka_sends(address, MANY, LINGER_MS))
        yield figure(f"aiokafka sends in batches, {MANY} in flight", batched)
        groups = [f"beside-{number}" for number in range(ROUNDS)]
        yield figure("aiokafka receives", _best(runner.run(aiokafka_receives(address, f"aio-{group}")) for group in groups))
        yield figure("librdkafka receives, lists of 500", _best(librdkafka_receives(address, f"rd-{group}") for group in groups))


def soon_figures(ours: Path, theirs: Path) -> Iterator[Figure]:
    """`send_soon` and librdkafka's `produce`, in turns while both servers run, so that a busy machine slows both down."""
    _kafka.use_clients()
    with Skyrocket(ours, STORE) as servers, _kafka.kafka(theirs) as address:
        for body_bytes in (100, BODY_BYTES):
            body, best = b"x" * body_bytes, dict.fromkeys([*loops(), "librdkafka"], NOTHING)
            for _ in range(TURNS):
                for name, factory in loops().items():
                    with asyncio.Runner(loop_factory=factory) as runner:
                        measured = runner.run(our_soon_sends(servers.nameserver, body, ROUNDS_OF_A_TURN))
                    best[name] = best[name].better(measured)
                best["librdkafka"] = best["librdkafka"].better(librdkafka_sends(address, LINGER_MS, body, ROUNDS_OF_A_TURN))
            for name, measured in best.items():
                what = f"{name} sends {body_bytes} B, {LINGER_MS} ms of linger"
                ratio = measured.cpu_us / best["librdkafka"].cpu_us
                is_ours = name in loops()
                yield figure(f"ours: {what}" if is_ours else what, measured, f"{ratio:.2f} × librdkafka" if is_ours else "")


def _best(rounds: Iterable[ClientRate]) -> ClientRate:
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
        yield Figure("Kafka's clients", "–", f"not measured: {reason}")
        return
    with folder() as home:
        yield from kafka_figures(home)
    with folder() as ours, folder() as theirs:
        yield from soon_figures(ours, theirs)

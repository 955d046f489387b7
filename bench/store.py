"""Cost of the store: appends, flushes, reads, recovery. One core, four queues, messages of 1 KiB with a unique key and a tag."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import Figure
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.store.config import StoreConfig
from skyrocket.store.flusher import Flusher
from skyrocket.store.message import AppendRequest, append_request_of
from skyrocket.store.message_store import MessageStore

MESSAGES = 40_000
GROUP = 64
ROUNDS = 5
BODY = os.urandom(1024)
CONFIG = StoreConfig(segment_bytes=256 * 1024 * 1024)


def message(number: int, *, tag: bool = True) -> AppendRequest:
    properties = {"UNIQ_KEY": f"7F000001000078BF57FC{number:012X}", "WAIT": "true"}
    if tag:
        properties["TAGS"] = "TagA"
    return append_request_of(Record("bench", BODY, encode_properties(properties), queue_id=number % 4, born_timestamp=1))


@contextmanager
def opened(config: StoreConfig = CONFIG) -> Iterator[MessageStore]:
    directory = tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR"))
    store = MessageStore(directory, config)
    store.open()
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(directory)


def append_cost(group: int, config: StoreConfig = CONFIG, *, tag: bool = True) -> float:
    """Return the CPU µs per message of the best round."""
    messages = [message(number, tag=tag) for number in range(MESSAGES)]
    groups = [messages[at : at + group] for at in range(0, MESSAGES, group)]
    gc.freeze()  # a broker does not hold these messages, so the garbage collector must not scan them
    best = float("inf")
    with opened(config) as store:
        for now_ms in range(ROUNDS):
            started = time.process_time()
            for some in groups:
                store.append(some, now_ms)
            best = min(best, (time.process_time() - started) / MESSAGES)
    gc.unfreeze()
    return best * 1e6


def group_commit_rate(waiters: int, seconds: float = 1.0) -> tuple[float, float]:
    """Return the confirmed messages per second of `waiters` sync senders, and the messages per flush."""

    async def sender(store: MessageStore, flusher: Flusher, until: float) -> int:
        sent = 0
        while time.monotonic() < until:
            store.append([message(sent)], 0)
            await flusher.wait_flushed(store.horizon.appended)
            sent += 1
        return sent

    async def main(store: MessageStore) -> tuple[float, float]:
        flushes = 0

        def count() -> None:
            nonlocal flushes
            flushes += 1

        flusher = Flusher(store, lambda: 0, count)
        started = time.monotonic()
        sent = sum(await asyncio.gather(*[sender(store, flusher, started + seconds) for _ in range(waiters)]))
        spent = time.monotonic() - started
        await flusher.close()
        return sent / spent, sent / max(1, flushes)

    with opened(StoreConfig(segment_bytes=256 * 1024 * 1024, sync_flush=True)) as store:
        return asyncio.run(main(store))


def read_cost(store: MessageStore, offsets: list[int]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        count = 0
        started = time.process_time()
        for offset in offsets:
            count += len(store.reading.messages("bench", 1, offset, 32).records)
        best = min(best, (time.process_time() - started) / count)
    return best * 1e6


def read_figures() -> Iterator[Figure]:
    with opened() as store:
        for at in range(0, MESSAGES, GROUP):
            store.append([message(number) for number in range(at, at + GROUP)], 0)
        each = MESSAGES // 4
        in_order = list(range(0, each - 32, 32))
        scattered = [at * 7_919 % (each - 32) for at in in_order]
        yield Figure("read a queue in order, 32 at a time, just written", f"{read_cost(store, in_order):.2f} µs")
        yield Figure("read a queue at random, 32 at a time, just written", f"{read_cost(store, scattered):.2f} µs")
        store.reading.set_opened_at(store.log.end)  # makes reads check every record, as after a restart
        yield Figure("read a queue in order, every record checked", f"{read_cost(store, in_order):.2f} µs")


def crash_store(directory: str, gigabytes: float) -> None:
    """Write a store in a child process and kill it, so that the messages lie behind the checkpoint."""
    child = os.fork()
    if child == 0:
        store = MessageStore(directory, CONFIG)
        store.open()
        groups = [[message(number) for number in range(at, at + GROUP)] for at in range(0, 8192, GROUP)]
        while store.log.end < gigabytes * 1e9:
            for some in groups:
                store.append(some, 0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def recovery_figures(gigabytes: float = 0.5) -> Iterator[Figure]:
    directory = tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR"))
    try:
        crash_store(directory, gigabytes)
        store = MessageStore(directory, CONFIG)
        started = time.process_time()
        recovered = store.open()
        spent = time.process_time() - started
        size = store.log.end / 1e9
        yield Figure(
            "recovery after a crash, per GB behind the checkpoint",
            f"{spent / size:.1f} s",
            f"{recovered.messages} messages of 1 KiB",
        )
        store.close()
        store = MessageStore(directory, CONFIG)
        started, read = time.process_time(), _bytes_read()
        store.open()
        yield Figure(
            f"opening the same {size:.1f} GB after a clean stop",
            f"{(time.process_time() - started) * 1000:.0f} ms",
            f"{(_bytes_read() - read) / 1e6:.1f} MB through read calls",
        )
        store.close()
    finally:
        shutil.rmtree(directory)


def _bytes_read() -> int:
    """Return the bytes that this process has read so far, from memory or disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def figures() -> Iterator[Figure]:
    yield Figure("append, one at a time", f"{append_cost(1):.2f} µs")
    yield Figure("append, groups of 64, unique key indexed", f"{append_cost(GROUP, tag=False):.2f} µs", "at most 5")
    yield Figure("append, groups of 64, unique key and tag indexed", f"{append_cost(GROUP):.2f} µs")
    for waiters in (1, 16, 64, 256):
        rate, together = group_commit_rate(waiters)
        yield Figure(f"sync flush, {waiters} waiting", f"{rate:,.0f}/s", f"{together:.0f} messages a flush")
    yield from read_figures()
    yield from recovery_figures()

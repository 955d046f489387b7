"""What the client costs: CPU time of its process per message, sent and acknowledged by a broker of ours beside it.

Sends of 1 KiB with 64 under way, each by a task that awaits it; the same with automatic batching; on asyncio's own loop and on
uvloop. The best of several rounds counts.
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

from tests.support.skyrocket_process import Skyrocket

from bench import Figure
from skyrocket.client import Message, Producer

TOPIC = "BenchTopic"
SENDS, IN_FLIGHT, BODY_BYTES = 5_120, 64, 1024
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "30"))
STORE = {"mappedFileSizeCommitLog": 1 << 30, "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000}


async def sends(nameserver: str, in_flight: int, **options: Any) -> float:
    """CPU µs of a send, of the best round."""
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


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop] | None]:
    found: dict[str, Callable[[], asyncio.AbstractEventLoop] | None] = {"asyncio": None}
    try:
        import uvloop  # noqa: PLC0415 — an extra

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
        yield Figure(f"the same batched by itself, {16 * IN_FLIGHT} in flight, {name}", f"{together:.2f} µs", "at most 10")


def figures() -> Iterator[Figure]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        with Skyrocket(home, STORE) as servers:
            yield from send_figures(servers.nameserver)
    finally:
        shutil.rmtree(home)

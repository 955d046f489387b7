"""Cost of a scan of the commit log into Arrow: one segment of messages with 1 KiB bodies, in the page cache.

`python -m bench store_arrow` prints µs per message, and `python -m bench.store_arrow` also GB of log per second.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from bench import Benchmark, us_per_message
from skyrocket.columnar.scan import ALL_COLUMNS, FAST_COLUMNS, scan
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.store.config import StoreConfig
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineStore

MESSAGES = 50_000
GROUP = 500
BODY = bytes(range(256)) * 4
NOW_MS = 1_794_725_517_342
HOST = pack_host("127.0.0.1", 10_911)


@cache
def log(trusted: bool) -> OfflineStore:
    """Write a store: with `trusted` as our broker does, with checksums of whole records; otherwise as Apache's does, without."""
    directory = Path(tempfile.mkdtemp(prefix="skyrocket-bench-"))
    atexit.register(shutil.rmtree, directory)
    config = StoreConfig(segment_bytes=128 * 1024 * 1024, index_enabled=False)
    store = MessageStore(directory, config)
    store.open()
    for first in range(0, MESSAGES, GROUP):
        store.append([append_request_of(message(number)) for number in range(first, first + GROUP)], NOW_MS + first)
    store.close()
    if not trusted:
        shutil.rmtree(directory / "checksums")
    return OfflineStore(directory)


def message(number: int, body: bytes = BODY) -> Record:
    properties = {
        "KEYS": f"key-{number}",
        "UNIQ_KEY": f"FD0000000000000000000000000000020A2E1DBD16A64992301D{number % 65536:04X}",
        "WAIT": "true",
        "TAGS": "TagA" if number % 2 else "TagB",
    }
    encoded = encode_properties(properties)
    return Record("GoldenTopic", body, encoded, queue_id=number % 4, born_timestamp=NOW_MS, born_host=HOST, store_host=HOST)


def scan_all(columns: Sequence[str], check: bool, trusted: bool = False, topic: str | None = None) -> int:
    return sum(batch.num_rows for batch in scan(log(trusted), columns=columns, check=check, topic=topic))


def iterate_all() -> int:
    return sum(1 for _ in log(False).records())


NUMBERS = tuple(name for name in FAST_COLUMNS if name not in ("body", "topic", "bornHost"))

BENCHMARKS = [
    Benchmark("Arrow, fast columns (with body), unchecked", partial(scan_all, FAST_COLUMNS, False), MESSAGES, "0.5–0.9"),
    Benchmark("Arrow, fast columns, CRC of bodies", partial(scan_all, FAST_COLUMNS, True), MESSAGES),
    Benchmark("Arrow, fast columns, CRC of records", partial(scan_all, FAST_COLUMNS, True, True), MESSAGES),
    Benchmark("Arrow, numbers only, unchecked", partial(scan_all, NUMBERS, False), MESSAGES),
    Benchmark("Arrow, body only, unchecked", partial(scan_all, ("body",), False), MESSAGES),
    Benchmark("Arrow, all columns, unchecked", partial(scan_all, ALL_COLUMNS, False), MESSAGES),
    Benchmark("Arrow, all columns, CRC of bodies", partial(scan_all, ALL_COLUMNS, True), MESSAGES),
    Benchmark("Arrow, a topic without messages", partial(scan_all, FAST_COLUMNS, False, False, "Other"), MESSAGES),
    Benchmark("Python objects, CRC of bodies", iterate_all, MESSAGES, "1.2–3.4"),
]


def main() -> None:
    *_, last = log(False).items(check=False)
    record_bytes = last.offset / MESSAGES
    for benchmark in BENCHMARKS:
        us = us_per_message(benchmark)
        print(
            f"{benchmark.name:<45} {us:6.2f} µs  {record_bytes / us / 1000:5.2f} GB/s of log  {1024 / us / 1000:5.2f} of bodies"
        )


if __name__ == "__main__":
    main()

"""A process that writes to a store until it is killed: `python -m tests.support.stores.kill9_writer DIRECTORY SEED NOW_MS`.

SEED and NOW_MS determine everything it attempts (`attempts`), so a test knows every byte that may be in the store. It prints
these lines, unbuffered:

    opening                                                      the store is about to be opened
    open
    ack NUMBER TOPIC QUEUE QUEUE_OFFSET PHYSICAL_OFFSET CRC      message NUMBER is confirmed: it must never be lost
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from skyrocket.protocol.crc import crc32
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import KEYS, TAGS, UNIQUE_KEY, encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.store.config import StoreConfig
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore

TOPICS = ("orders", "bills", "语")  # the last is no topic that a broker allows, and no matter to a store
QUEUES = 2
CONFIG = StoreConfig(
    segment_bytes=64 * 1024, queue_entries_per_file=100, index_slots=100, index_entries=400, sync_flush=True, open_files_max=8
)
BODY_BYTES_MAX = 2_000
GROUP_MAX = 16
HOSTS = (pack_host("127.0.0.1", 40_000), pack_host("2001:db8::7", 40_001))


class Attempt(NamedTuple):
    """A group of messages that is appended with one call, at one time."""

    first: int  # the number of the first message
    records: list[Record]
    now_ms: int
    checkpoint: bool  # whether one follows
    writes_late: bool  # whether queues, index and checksums are written, without a checkpoint


def attempts(seed: int, now_ms: int, topics: tuple[str, ...] = TOPICS) -> Iterator[Attempt]:
    """Yield everything that a writer with this seed attempts, in order, without end."""
    chance = random.Random(seed)
    number = 0
    while True:
        now_ms += chance.randint(0, 3)
        records = [_message(chance, seed, number + n, now_ms, topics) for n in range(chance.randint(1, GROUP_MAX))]
        yield Attempt(number, records, now_ms, chance.random() < 0.1, chance.random() < 0.2)
        number += len(records)


def _message(chance: random.Random, seed: int, number: int, now_ms: int, topics: tuple[str, ...]) -> Record:
    properties = {UNIQUE_KEY: f"{seed:08X}{number:024X}", TAGS: chance.choice(("red", "blue"))}
    if chance.random() < 0.5:
        properties[KEYS] = f"k{number % 7} s{seed}n{number}"
    return Record(
        topic=chance.choice(topics),
        body=chance.randbytes(chance.randint(0, BODY_BYTES_MAX)),
        properties=encode_properties(properties),
        queue_id=chance.randrange(QUEUES),
        flag=number,
        born_timestamp=now_ms - 1,
        born_host=chance.choice(HOSTS),
        store_host=chance.choice(HOSTS),
    )


def write(directory: str, seed: int, now_ms: int, topics: tuple[str, ...]) -> None:
    with ThreadPoolExecutor(1) as background:
        store = MessageStore(directory, CONFIG, background=background)
        _say("opening")
        store.open()
        _say("open")
        for attempt in attempts(seed, now_ms, topics):
            placed = store.append([append_request_of(record) for record in attempt.records], attempt.now_ms)
            store.flush()
            assert store.horizon.confirmed == store.horizon.appended
            acks = []
            for number, (record, place) in enumerate(zip(attempt.records, placed, strict=True), attempt.first):
                where = f"{record.topic} {record.queue_id} {place.queue_offset} {place.physical_offset}"
                acks.append(f"ack {number} {where} {crc32(record.body)}")
            _say("\n".join(acks))
            if attempt.checkpoint:
                store.checkpoint()
            if attempt.writes_late:
                store.write_late()


def _say(lines: str) -> None:
    """Print a line with one write, so that it is whole or missing."""
    sys.stdout.buffer.write(f"{lines}\n".encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4:]) or TOPICS)

"""A writer with sync flush is killed with SIGKILL at any moment: no acknowledged message is lost, and nothing else appears.

Each round opens the directory that the round before left. The kill comes at a random time after the writer starts to open the
store, so that it hits recovery, appends, flushes and checkpoints. SKYROCKET_KILLS sets the number of kills: 40, and 100 with
`make crash`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from skyrocket.protocol.message.properties import UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.store.log.scan import FoundRecord, walk_segment
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from tests.support.stores.kill9_writer import CONFIG, attempts

KILLS = int(os.environ.get("SKYROCKET_KILLS", "40"))
DIRECTORIES = 4
DELAY_MS_MAX = 300
START_S_MAX = 60.0  # a machine under load may take that long to start a process
ROUND_MS = 1_000_000  # of the messages' own clock: a round's times come after those of the round before
FIRST_MS = 1_750_000_000_000


class Ack(NamedTuple):
    number: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int


@dataclass(slots=True)
class Life:
    """One writer process: its arguments, and what it printed before it was killed."""

    seed: int
    now_ms: int
    delay_ms: float
    opened: bool = False
    acks: list[Ack] = field(default_factory=list)


def kill_writer(directory: Path, seed: int, now_ms: int, delay_ms: float) -> Life:
    """Start a writer, and kill it `delay_ms` after it begins to open the store."""
    command = [sys.executable, "-m", "tests.support.stores.kill9_writer", str(directory), str(seed), str(now_ms)]
    said = directory.with_name(f"{directory.name}-{seed}.said")
    with said.open("wb") as pipe, said.open("rb") as reading:
        process = subprocess.Popen(command, stdout=pipe, stderr=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])
        try:
            deadline = time.monotonic() + START_S_MAX
            while not reading.read(1):
                assert process.poll() is None, f"the writer ended by itself: {process.communicate()[1].decode()[-2000:]}"
                assert time.monotonic() < deadline, "the writer did not start"
                time.sleep(0.001)
            time.sleep(delay_ms / 1000)
        finally:
            process.kill()
            _, complaint = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"the writer ended by itself: {complaint.decode()[-2000:]}"
    return _read_output(Life(seed, now_ms, delay_ms), said)


def _read_output(life: Life, said: Path) -> Life:
    lines = said.read_bytes().decode().split("\n")[:-1]  # what was said without its line end was not said
    life.opened = "open" in lines
    for line in lines:
        if line.startswith("ack "):
            number, topic, queue_id, queue_offset, physical_offset, _crc = line.split()[1:]
            life.acks.append(Ack(int(number), topic, int(queue_id), int(queue_offset), int(physical_offset)))
    said.unlink()
    return life


def records_in_log(store: MessageStore) -> Iterator[tuple[Record, memoryview]]:
    """Yield every record in log order."""
    for start in store.log.segments.starts:
        view = store.log.segments.file(start).view()[: store.log.end - start]
        for item in walk_segment(view, start):
            if isinstance(item, FoundRecord):
                at = item.offset - start
                yield item.record, view[at : at + item.size]


def attempted(life: Life, count: int) -> list[tuple[Record, int]]:
    """Return the first messages that a writer attempted, each with its time."""
    every = ((record, group.now_ms) for group in attempts(life.seed, life.now_ms) for record in group.records)
    return list(islice(every, count))


def seed_of(record: Record) -> int:
    return int(decode_properties(record.properties)[UNIQUE_KEY][:8], 16)


@dataclass(slots=True)
class Directory:
    """A store, and what all its writers acknowledged."""

    path: Path
    lives: list[Life] = field(default_factory=list)

    def check(self, lives: list[Life]) -> None:
        """Open the store, and compare its content with what these writers acknowledged and attempted."""
        store = MessageStore(self.path, CONFIG)
        recovered = store.open()
        try:
            assert not recovered.set_aside, f"a kill damages nothing that was safe: {recovered.sentences()}"
            of_life: dict[int, list[tuple[Record, bytes]]] = {}
            for record, view in records_in_log(store):
                of_life.setdefault(seed_of(record), []).append((record, bytes(view)))
            assert set(of_life) <= {life.seed for life in self.lives}
            for life in lives:
                found = of_life.get(life.seed, [])
                self._check_log(life, found)
                self._check_queues(life, found, store)
        finally:
            store.close()

    def _check_log(self, life: Life, found: list[tuple[Record, bytes]]) -> None:
        """acknowledged ⊆ recovered ⊆ attempted, in order, byte for byte."""
        told = f"seed {life.seed}, killed after {life.delay_ms:.1f} ms"
        assert len(found) >= len(life.acks), f"{told}: {len(life.acks)} were acknowledged, {len(found)} are there"
        for number, ((record, data), (wanted, now_ms)) in enumerate(zip(found, attempted(life, len(found)), strict=True)):
            placed = msgspec.structs.replace(
                wanted, queue_offset=record.queue_offset, physical_offset=record.physical_offset, store_timestamp=now_ms
            )
            assert data == encode_record(placed), f"{told}: message {number} is not what was written"
        for ack in life.acks:
            record, _ = found[ack.number]
            place = (record.topic, record.queue_id, record.queue_offset, record.physical_offset)
            assert place == ack[1:], f"{told}: message {ack.number} was acknowledged elsewhere"

    def _check_queues(self, life: Life, found: list[tuple[Record, bytes]], store: MessageStore) -> None:
        """Check that each message is in its queue at its offset, and that the index finds it."""
        for record, data in found:
            (read,) = store.reading.messages(record.topic, record.queue_id, record.queue_offset, 1).records
            assert read == data, f"seed {life.seed}: another message lies in the queue at {record.queue_offset}"
        for record, data in found[:: max(1, len(found) // 20)]:
            unique = decode_properties(record.properties)[UNIQUE_KEY]
            by_key = store.reading.query(record.topic, unique, record.store_timestamp, record.store_timestamp, 8)
            assert [bytes(view) for view in by_key] == [data], f"seed {life.seed}: the index does not find {unique}"


@pytest.mark.parametrize("number", range(DIRECTORIES))
def test_no_acknowledged_message_is_lost_when_the_writer_is_killed(number: int, tmp_path: Path):
    chance = random.Random(number)
    directory = Directory(tmp_path / "store")
    for turn in range(-(-(KILLS - number) // DIRECTORIES)):
        seed = number * 1_000_000 + turn
        delay_ms = chance.uniform(0, DELAY_MS_MAX) * chance.random()
        life = kill_writer(directory.path, seed, FIRST_MS + turn * ROUND_MS, delay_ms)
        directory.lives.append(life)
        if turn % 3:  # the writer itself recovers in the rounds between
            directory.check([life])
    directory.check(directory.lives)
    assert KILLS < 40 or sum(len(life.acks) for life in directory.lives) > 100, "the writers hardly wrote: nothing was tested"


@pytest.mark.parametrize(
    "unfinished", ["commitlog/00000000000000065536", "consumequeue/orders/1/00000000000000002000", "index/99991231235959999"]
)
def test_file_that_was_being_created_at_the_kill_is_created_again(unfinished: str, tmp_path: Path):
    """A crash between creating a file and setting its size leaves an empty file."""
    groups = list(islice(attempts(5, FIRST_MS), 2))
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    store.append([append_request_of(record) for record in groups[0].records], groups[0].now_ms)
    store.close()
    (tmp_path / unfinished).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / unfinished).touch()
    (tmp_path / "abort").touch()
    again = MessageStore(tmp_path, CONFIG)
    again.open()
    for _ in range(20):  # beyond the end of the segment that was the last
        again.append([append_request_of(record) for record in groups[1].records], groups[1].now_ms)
    again.flush()
    assert len(list(records_in_log(again))) == len(groups[0].records) + 20 * len(groups[1].records)
    again.close()

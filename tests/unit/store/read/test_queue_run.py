"""Reading a run of records gives the same messages as reading them one by one, whatever is damaged."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from skyrocket.store.config import StoreConfig
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import ENTRY
from skyrocket.store.read.queue_run import RunQuery, run_length
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import START_MS, a_message, an_open_store, bodies
from tests.support.twins import KINDS, using

CONFIG = StoreConfig(segment_bytes=16 * 1024, queue_entries_per_file=60, index_slots=16, index_entries=2000)
RED, BLUE = 112785, 3027034  # Java's hashes of the words
QUEUES = [("orders", 0), ("orders", 1), ("%RETRY%billing", 0)]


def a_filled_disk(rng: Random) -> SimulatedDisk:
    disk = SimulatedDisk()
    store = an_open_store(disk, CONFIG)
    for number in range(200):
        topic, queue_id = rng.choice(QUEUES)
        body = rng.randbytes(rng.choice((0, 30, 300, 900)))
        tags, v6 = rng.choice(("red", "red", "blue", "")), rng.random() < 0.02
        store.append([a_message(topic, queue_id, body, tags=tags, unique=f"U{number}", v6=v6)], START_MS + number)
    store.close()
    return disk


def damage(disk: SimulatedDisk, rng: Random) -> None:
    """One flipped bit in a log, queue or checksum file."""
    paths = [path for path in sorted(disk.nodes) if any(part in path for part in ("commitlog/", "consumequeue/", "checksums/"))]
    content = disk.nodes[rng.choice(paths)].content
    written = len(bytes(content).rstrip(b"\0"))
    if written:
        content[rng.randrange(written)] ^= 1 << rng.randrange(8)


def run_queries(store: MessageStore, rng: Random) -> list[tuple[list[bytes], int]]:
    found = []
    for _ in range(60):
        topic, queue_id = rng.choice(QUEUES)
        wanted = rng.choice((None, None, frozenset({RED}), frozenset({BLUE, RED}), frozenset({1})))
        offset, count, bytes_max = rng.randrange(90), rng.choice((1, 5, 32)), rng.choice((100, 3000, 10**6))
        messages = store.reading.messages(topic, queue_id, offset, count, bytes_max, wanted)
        found.append(([bytes(record) for record in messages.records], messages.next_offset))
    return found


@pytest.mark.parametrize("flips", [0, 1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_reading_a_run_equals_reading_one_by_one(seed: int, flips: int, monkeypatch: pytest.MonkeyPatch):
    disk = a_filled_disk(Random(seed))
    found = []
    for is_together in (True, False):
        own = disk.copy()
        store = an_open_store(own, CONFIG)
        if not is_together:
            monkeypatch.setattr(store.reading, "_run", lambda *_: None)
        rng = Random(seed)
        for _ in range(flips):
            damage(own, rng)
        found.append(run_queries(store, rng))
    assert found[0] == found[1]
    assert any(records for records, _ in found[0])


def pulled(store: MessageStore, rng: Random) -> list[tuple[object, ...]]:
    """Like `asked`, but with pulls."""
    found: list[tuple[object, ...]] = []
    for _ in range(60):
        topic, queue_id = rng.choice(QUEUES)
        wanted = rng.choice((None, None, frozenset({RED}), frozenset({BLUE, RED}), frozenset({1}), frozenset()))
        offset, count, bytes_max = rng.randrange(90), rng.choice((1, 5, 32)), rng.choice((100, 3000, 10**6))
        queue = store.queues.get(topic, queue_id)
        assert queue is not None
        pieces, *rest = store.reading.read_pull(queue, RunQuery(topic, queue_id, offset, count, bytes_max, wanted))
        read = store.reading.messages(topic, queue_id, offset, count, bytes_max, wanted)
        assert b"".join(pieces) == b"".join(read.records)
        found.append((b"".join(pieces), *rest))
    return found


@pytest.mark.parametrize("flips", [0, 1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_pull_is_equal_with_the_twin_and_with_its_reference(seed: int, flips: int):
    """Odd seeds treat half of the log as recently written: its checksums are not checked then."""
    disk = a_filled_disk(Random(seed))
    found = []
    for kind in KINDS:
        own = disk.copy()
        store = an_open_store(own, CONFIG)
        rng = Random(seed)
        if seed % 2:
            store.reading.set_opened_at(store.log.end // 2)
        for _ in range(flips):
            damage(own, rng)
        with using(kind):
            found.append(pulled(store, rng))
    assert all(one == found[0] for one in found)


def test_old_records_are_read_as_one_run(monkeypatch: pytest.MonkeyPatch):
    disk = SimulatedDisk()
    store = an_open_store(disk, CONFIG)
    store.append([a_message(queue_id=n % 2, body=b"%d" % n) for n in range(40)], START_MS)
    store.close()
    store = an_open_store(disk, CONFIG)
    monkeypatch.setattr(store.reading, "_check_record", lambda *_: pytest.fail("a record was looked at alone"))
    assert len(store.reading.messages("orders", 1, 0, 32).records) == 20
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_large_pull_of_one_of_several_queues_is_read_as_one_run(kind: str, monkeypatch: pytest.MonkeyPatch):
    """Checksums of other queues lie in between: four times as many as the pull asks for."""
    disk, config = SimulatedDisk(), replace(CONFIG, segment_bytes=1024 * 1024, queue_entries_per_file=5000)
    store = an_open_store(disk, config)
    store.append([a_message(queue_id=n % 4, body=b"%d" % n) for n in range(4400)], START_MS)
    store.close()
    store = an_open_store(disk, config)
    monkeypatch.setattr(store.reading, "_check_record", lambda *_: pytest.fail("a record was looked at alone"))
    queue = store.queues.get("orders", 1)
    assert queue is not None
    with using(kind):
        assert store.reading.read_pull(queue, RunQuery("orders", 1, 0, 1024, 4 * 1024 * 1024, None)).messages == 1024
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_large_pulls_of_old_records_that_lie_far_apart_end_early(kind: str, monkeypatch: pytest.MonkeyPatch):
    """A run of 1,024 records in one of four queues would be 4.4 MB of the log, more than is read at once."""
    disk, config = SimulatedDisk(), replace(CONFIG, segment_bytes=8 * 1024 * 1024, queue_entries_per_file=5000)
    store = an_open_store(disk, config)
    for first in range(0, 4400, 400):
        store.append([a_message(queue_id=n % 4, body=bytes(1000)) for n in range(first, first + 400)], START_MS)
    store.close()
    store = an_open_store(disk, config)
    monkeypatch.setattr(store.reading, "_check_record", lambda *_: pytest.fail("a record was looked at alone"))
    queue = store.queues.get("orders", 1)
    assert queue is not None
    offset, found = 0, []
    with using(kind):
        while offset < 1100:
            run = store.reading.read_pull(queue, RunQuery("orders", 1, offset, 1024, 4 * 1024 * 1024, None))
            assert run.next_offset == offset + run.messages
            found.append(run.messages)
            offset = run.next_offset
    assert found == [256, 256, 256, 332]
    store.close()


def packed_entries(count: int, apart_bytes: int) -> bytes:
    return b"".join(ENTRY.pack(number * apart_bytes, 1_000, 0) for number in range(count))


@pytest.mark.parametrize(
    ("count", "apart_bytes", "hot_from", "length"),
    [
        (1, 10**9, 10**12, 1),
        (1024, 1_000, 10**12, 1024),
        (1024, 3_000, 10**12, 512),
        (1000, 5_000, 10**12, 256),
        (1000, 5_000, 0, 1000),  # this process wrote them, so the whole segment is there
        (512, 4_200, 10**12, 256),
        (1024, 60_000, 10**12, 32),
        (1024, 90_000, 10**12, 1024),  # not even 32 lie close together: they are read one by one
        (32, 90_000, 10**12, 32),
    ],
)
def test_run_is_as_long_as_one_read_of_the_log_allows(count: int, apart_bytes: int, hot_from: int, length: int):
    assert run_length(packed_entries(count, apart_bytes), hot_from) == length


def test_pull_across_segments_skips_no_message():
    store = an_open_store(SimulatedDisk(), CONFIG)
    for number in range(40):
        store.append([a_message(body=b"%06d" % number + bytes(900))], START_MS)
    assert len(store.log.segments.starts) > 1
    assert bodies(store) == [b"%06d" % number + bytes(900) for number in range(40)]
    store.close()

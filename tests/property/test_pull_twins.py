"""Twins for alike pulls and for runs of records return the same as their references, whatever is damaged."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import Random

import pytest

from skyrocket.broker.pull import frames
from skyrocket.broker.pull.frames import HeaderTemplate
from skyrocket.compiled import TWINS
from skyrocket.net.gathered_write import rest_of
from skyrocket.protocol.fast_path import pull_requests
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.store.log.checksums import ENTRY as CHECKSUM
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import ConsumeQueue
from skyrocket.store.read.queue_run import RunQuery
from tests.property.test_pull_fast_path import ODD
from tests.support.brokers.pull_parts import SETTINGS, a_filled_disk, a_pull
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import run_sources
from tests.support.twins import needs_twins
from tests.unit.store.read.test_queue_run import damage

assert pull_requests
assert frames
pytestmark = needs_twins

WORDS = HeaderTemplate(b'{"next":', b',"opaque":', b"}")


def a_header(random: Random, serialization: Serialization = Serialization.JSON) -> bytes:
    count = random.choice([1, *[32] * 9, 2**31, 2**31 - 1])
    offset = random.choice([*range(20), 10**17, 10**18 - 1, 10**18, -5])
    opaque, commit_offset = random.choice([*range(20), 2**31 - 1, 2**31]), random.randrange(100)
    opaque = min(opaque, 2**31 - 1) if serialization else opaque
    header = a_pull(opaque, offset, max_msg_nums=count, commit_offset=commit_offset, serialization=serialization)[8:]
    while random.random() < 0.15:
        at = random.randrange(len(header) + 1)
        header = header[:at] + random.choice(ODD) + header[at + random.choice([0, 0, 1, 2]) :]
    return header + b" " * random.choice([0, 0, 0, 0, 2048 - len(header), 2049 - len(header)])


@pytest.mark.parametrize("seed", range(20))
def test_alike_pulls_are_equal(seed: int):
    random, twins = Random(seed), TWINS["pull_requests.find_similar_pulls"]
    alike = 0
    for _ in range(200):
        frames = [Frame(int(random.random() < 0.02), a_header(random), b"")] * random.choice([1, 2])
        frames += [Frame(0, a_header(random), b"") for _ in range(random.randrange(4))]
        at, most = random.choice([0, 0, 1, 9]), random.choice([64, 64, 2, 0])
        reference, compiled = (each(frames, at, most) for each in twins)
        assert compiled == reference
        alike += len(reference[1])
    assert alike > 40


@pytest.mark.parametrize("seed", range(20))
def test_alike_pulls_with_binary_headers_are_equal(seed: int):
    random, twins = Random(seed), TWINS["pull_requests.find_similar_pulls"]
    alike = 0
    for _ in range(200):
        frames = [Frame(1, a_header(random, Serialization.ROCKETMQ), b"") for _ in range(random.randrange(1, 5))]
        if random.random() < 0.2:
            number, at = random.randrange(len(frames)), random.randrange(21)
            damaged = bytearray(frames[number].header)
            damaged[at] ^= 1 << random.randrange(8)
            frames[number] = Frame(1, bytes(damaged), b"")
        reference, compiled = (each(frames, 0, 64) for each in twins)
        assert compiled == reference
        alike += len(reference[1])
    assert alike > 40


def joined(found: tuple[list[bytes | memoryview], int, int, int, int]) -> tuple[bytes, int, int, int, int]:
    return b"".join(found[0]), *found[1:]


@pytest.fixture(params=[(seed, flips) for seed in range(12) for flips in (0, 1, 4)], ids=lambda given: f"{given[0]}-{given[1]}")
def damaged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[MessageStore, Random]:
    """Open a store in which some bits are flipped."""
    seed, flips = request.param
    random, disk = Random(seed), a_filled_disk(seed)
    store = MessageStore("store", SETTINGS.store_config(), files=disk)
    store.open()
    for _ in range(flips):
        damage_but_no_end(disk, random)
    if seed % 3 == 0:
        monkeypatch.setattr(store.reading, "_hot_from", lambda: 0)  # as if this process had written every record
    return store, random


def damage_but_no_end(disk: SimulatedDisk, random: Random) -> None:
    """Flip a bit, but not in the end of a checksum: what a search then finds depends on where it begins, in both twins."""
    sums = {path: bytes(node.content) for path, node in disk.nodes.items() if "checksums/" in path}
    damage(disk, random)
    for path, before in sums.items():
        for at in range(0, len(before), CHECKSUM.size):
            disk.nodes[path].content[at : at + 4] = before[at : at + 4]


def a_query(store: MessageStore, random: Random) -> tuple[ConsumeQueue, RunQuery]:
    queue_id = random.choice([0, 0, 1])
    queue = store.queues.get("orders", queue_id)
    assert queue is not None
    first = random.randrange(queue.max_offset)
    codes = random.choice([None, None, frozenset({112785}), frozenset({1, 112785})])
    return queue, RunQuery("orders", queue_id, first, random.choice([1, 5, 32]), random.choice([100, 3000, 10**6]), codes)


def test_framed_runs_are_equal(damaged: tuple[MessageStore, Random]):
    (store, random), twins = damaged, TWINS["queue_run.frame_runs"]
    reading, answered = store.reading, 0
    for _ in range(60):
        queue, wanted = a_query(store, random)
        asks = [
            (number, wanted.offset + random.choice([0, 5 * number, 5 * number, 200, -1]), random.choice([0, 5, 10**9]), 0)
            for number in range(random.randrange(6))
        ]
        packed = queue.read(wanted.offset, random.choice([1, 40, 1024]))
        most, bytes_max = random.choice([queue.max_offset, queue.max_offset, 10**6]), random.choice([10**6, 10**6, 700, 0])
        given = (reading._log, reading._checksums, reading._hot_from(), packed, wanted, asks, WORDS, most, bytes_max)
        found, hint = [], reading._checksums._hint
        for each in twins:
            reading._checksums._hint = hint  # in a damaged file, the result depends on where the search begins
            found.append(joined(each(*given)))
        reference, compiled = found
        assert compiled == reference
        answered += reference[1]
    assert answered > 5


def test_run_of_one_pull_is_equal(damaged: tuple[MessageStore, Random]):
    (store, random), twins = damaged, TWINS["queue_run.read_pull_run"]
    sources, runs = run_sources(store), 0
    for _ in range(60):
        queue, wanted = a_query(store, random)
        packed, hint, found = queue.read(wanted.offset, random.choice([1, 40, 1024])), sources.checksums._hint, []
        for each in twins:
            sources.checksums._hint = hint  # in a damaged file, the result depends on where the search begins
            run = each(*sources, packed, wanted)
            found.append(None if run is None else joined(run))
        reference, compiled = found
        assert compiled == reference
        runs += reference is not None
    assert runs > 5


@pytest.mark.parametrize("seed", range(10))
def test_the_same_pieces_reach_a_socket(seed: int):
    """A small socket takes a part of them; a call that finds it full takes nothing."""
    random, twins = Random(seed), TWINS["queue_run.write_pieces"]
    pieces = [random.randbytes(random.choice([0, 1, 100, 5000])) for _ in range(random.choice([1, 5, 1500]))]
    pieces = [memoryview(piece) if random.random() < 0.1 else piece for piece in pieces]
    for write in twins:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            rest, got = list(pieces), bytearray()
            while rest:
                rest = rest_of(rest, write(ours.fileno(), rest))
                with suppress(BlockingIOError):
                    while True:
                        got += theirs.recv(1 << 20)
            assert got == b"".join(pieces)

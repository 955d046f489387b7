"""Store files with extreme numbers: every twin that reads them returns what its reference returns, and reads nothing outside.

A disk can return any bytes, and a store directory may come from a stranger. `make sanitize` runs this under AddressSanitizer and
UndefinedBehaviorSanitizer. The disk lies in memory, so that the sanitizer knows where each file ends.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from skyrocket.broker.pull.frames import HeaderTemplate, frame_runs
from skyrocket.compiled import TWINS
from skyrocket.protocol.fast_path.pull_requests import PullNumbers
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, MAGIC
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreError
from skyrocket.store.log.readdress import Address
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.entry_window import EntryWindow
from skyrocket.store.read.queue_run import RunQuery
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import FOREVER_MS, ROOT, START_MS, a_message, an_open_store, run_sources
from tests.support.twins import needs_twins, using

pytestmark = needs_twins

SEEDS = range(max(2, int(os.environ.get("SKYROCKET_FUZZ_FRAMES", "50000")) // 2500))
CONFIG = StoreConfig(segment_bytes=16 * 1024, queue_entries_per_file=60, index_slots=16, index_entries=400)
QUEUES = [("orders", 0), ("orders", 1), ("%RETRY%billing", 0)]
RED = 112785  # Java's hash of the word
FILES = ("commitlog/", "consumequeue/", "checksums/", "index/")
EXTREMES = [0, 1, -1, 2**63 - 1, 2**63 - 40, 2**63 - 1000, -(2**63), -(2**63) + 1, 2**62, 2**32, 2**31, 2**31 - 1, -(2**31)]
EXTREMES += [CONFIG.segment_bytes - 1, CONFIG.segment_bytes, CONFIG.segment_bytes - 91, 3 * CONFIG.segment_bytes]
WORDS = HeaderTemplate(b'{"nextBeginOffset":"', b'","opaque":', b"}")


def a_filled_disk(rng: Random, messages: int = 120) -> SimulatedDisk:
    disk = SimulatedDisk()
    store = an_open_store(disk, CONFIG)
    for number in range(messages):
        topic, queue_id = rng.choice(QUEUES)
        body = rng.randbytes(rng.choice((0, 30, 300, 900)))
        tags, v6 = rng.choice(("red", "red", "blue", "")), rng.random() < 0.02
        store.append([a_message(topic, queue_id, body, tags=tags, unique=f"U{number:016d}", v6=v6)], START_MS + number)
    store.close()
    return disk


def spoil(disk: SimulatedDisk, rng: Random, kinds: tuple[str, ...] = FILES) -> None:
    """Overwrite a number in a file of the store with an extreme one, at a place where such a file has numbers."""
    kind = rng.choice(kinds)
    content = disk.nodes[rng.choice([path for path in disk.nodes if f"/{kind}" in path])].content
    written = len(bytes(content).rstrip(b"\0"))
    size = rng.choice((4, 8))
    if kind == "consumequeue/":
        at = rng.randrange(max(1, written // 20)) * 20 + rng.choice((0, 0, 8, 12))
    elif kind == "index/":
        at = rng.choice((rng.randrange(0, 40, 4), 40 + rng.randrange(16) * 4, rng.randrange(40, max(41, written))))
    else:
        at = rng.randrange(max(1, written // 4)) * 4
    value = rng.choice((*EXTREMES, rng.randrange(2**63)))
    packed = (value % 2 ** (8 * size)).to_bytes(size)
    at = min(at, len(content) - size)
    content[at : at + size] = packed


def attempt(read: Any, *arguments: Any) -> Any:
    """Return what a read returns, or the kind of its error."""
    try:
        return read(*arguments)
    except StoreError as error:
        return type(error)


def pull(store: MessageStore, query: RunQuery) -> Any:
    queue = store.queues.get(query.topic, query.queue_id)
    if queue is None:
        return None
    pieces, *rest = store.reading.read_pull(queue, query)
    return b"".join(pieces), *rest


class Frames(bytes):
    """Frames of the pulls that one pass answers. The general path answers the others, so a pass may end earlier than another."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frames) and (self.startswith(other) or other.startswith(self))

    __hash__ = bytes.__hash__


def frame_pulls(store: MessageStore, query: RunQuery, asks: list[PullNumbers]) -> Frames | None:
    queue = store.queues.get(query.topic, query.queue_id)
    if queue is None:
        return None
    entries = EntryWindow().read(queue, query.offset, max(0, asks[-1][1] - query.offset) + 2 * max(1, asks[-1][2]))
    sources = store.reading.turn_sources()
    pieces, *_ = frame_runs(*sources, entries, query, asks, WORDS, queue.max_offset, 100_000)
    return Frames(b"".join(pieces))


def some_asks(rng: Random, offset: int) -> list[PullNumbers]:
    """Pulls that arrive together: mostly one behind the other, and some from anywhere."""
    asks: list[PullNumbers] = [(1, offset, rng.choice((1, 7, 32)), 0)]
    for opaque in range(2, rng.randrange(2, 6)):
        odd = rng.choice((0, -1, 2**63 - 1, -(2**63), 2**62))
        following = min(asks[-1][1] + asks[-1][2], 2**63 - 1)
        asks.append((opaque, odd if rng.random() < 0.2 else following, rng.choice((1, 7, 32, 2**31 - 1)), 0))
    return asks


def read_everything(store: MessageStore, rng: Random) -> list[Any]:
    found: list[Any] = []
    for _ in range(30):
        topic, queue_id = rng.choice(QUEUES)
        codes = rng.choice((None, None, frozenset({RED}), frozenset({RED, 2**63 - 1}), frozenset()))
        query = RunQuery(topic, queue_id, rng.randrange(60), rng.choice((1, 5, 32)), rng.choice((100, 3000, 10**6)), codes)
        found.append(attempt(pull, store, query))
        found.append(attempt(frame_pulls, store, query, some_asks(rng, query.offset)))
        read = attempt(lambda asked=query: store.reading.messages(*asked))
        found.append(read if isinstance(read, type) else ([bytes(one) for one in read.records], read.next_offset))
        places = [rng.choice((*EXTREMES, rng.randrange(40_000))) for _ in range(8)]
        views = store.reading.views_at(places)
        found.append([None if view is None else bytes(view) for view in views])
        key = f"U{rng.randrange(120):016d}"
        found.append([bytes(one) for one in store.reading.query(topic, key, 0, FOREVER_MS, 10)])
        found.append(attempt(store.reading.offset_by_time, topic, queue_id, START_MS + rng.randrange(120)))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_are_equal_while_files_go_bad(seed: int):
    """The files go bad behind the back of an open store. Odd seeds treat half of the log as recently written."""
    disk = a_filled_disk(Random(seed))
    found = []
    for kind in ("compiled", "reference"):
        own, rng = disk.copy(), Random(seed)
        store = an_open_store(own, CONFIG)
        if seed % 2:
            store.reading.set_opened_at(store.log.end // 2)
        for _ in range(rng.randrange(1, 40)):
            spoil(own, rng)
        with using(kind):
            found.append(read_everything(store, rng))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_stores_that_open_with_bad_files_are_equal(seed: int):
    """Recovery reads the bad files, and messages are added to what it makes of them."""
    disk = a_filled_disk(Random(seed))
    found: list[Any] = []
    for kind in ("compiled", "reference"):
        own, rng = disk.copy(), Random(seed)
        for _ in range(rng.randrange(1, 8)):
            spoil(own, rng)
        if seed % 2:
            own.write_file(f"{ROOT}/abort", b"skyrocket\n")
        with using(kind):
            found.append(attempt(grow, own, rng))
    assert found[0] == found[1]


def grow(disk: SimulatedDisk, rng: Random) -> Any:
    store = an_open_store(disk, CONFIG)
    for number in range(40):
        store.append(
            [a_message("orders", number % 2, bytes(100), tags="red", unique=f"U{number:016d}")], START_MS + 1000 + number
        )
    found = read_everything(store, rng)
    store.close()  # what is written late is in the files then
    files = {path: bytes(node.content) for path, node in disk.nodes.items() if any(f"/{kind}" in path for kind in FILES)}
    return found, files


def test_an_entry_close_to_the_largest_number_is_no_record():
    """Its end, as a sum, is negative: a bounds check that adds lets the entry pass."""
    for place in (2**63 - 1, 2**63 - 40, 2**63 - 1000, -(2**63), -1):
        for size in (40, 1000, 2**31 - 1):
            store = an_open_store(SimulatedDisk(), CONFIG)
            store.append([a_message(body=b"%d" % number) for number in range(3)], START_MS)
            queue = store.queues.get("orders", 0)
            assert queue is not None
            queue.replace(1, place.to_bytes(8, signed=True) + size.to_bytes(4) + bytes(8))
            sources = run_sources(store)
            packed, query = queue.read(0, 3), RunQuery("orders", 0, 0, 3, 2**40, None)
            assert TWINS["queue_run.read_pull_run"].compiled(*sources, packed, query) is None
            asks: list[PullNumbers] = [(1, 0, 1, 0), (2, 1, 1, 0), (3, 2, 1, 0)]
            assert TWINS["queue_run.frame_runs"].compiled(*sources, packed, query, asks, WORDS, 3, 2**40)[1] == 1
            store.close()


# --- single records


def a_spoiled_log(seed: int) -> tuple[bytes, list[int]]:
    """A segment with extreme numbers in it, and where its records began."""
    rng = Random(seed)
    disk = a_filled_disk(rng, 20)
    store = an_open_store(disk, CONFIG)
    starts = [entry.physical_offset for _, queue in store.queues for entry in map(queue.entry, range(queue.max_offset)) if entry]
    store.close()
    for _ in range(rng.randrange(1, 20)):
        spoil(disk, rng, ("commitlog/",))
    first = bytes(disk.nodes[f"{ROOT}/commitlog/{0:020d}"].content)
    return first, sorted(start for start in starts if start < CONFIG.segment_bytes)


def assert_same(name: str, *arguments: Any) -> Any:
    twins = TWINS[name]
    reference = attempt_any(twins.reference, *arguments)
    assert attempt_any(twins.compiled, *arguments) == reference
    return reference


def attempt_any(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (ValueError, OverflowError) as error:
        return type(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_records_are_equal(seed: int):
    """Records that wait under a system topic are found, parsed and readdressed from whatever the log holds."""
    segment, starts = a_spoiled_log(seed)
    rng = Random(seed)
    cut = memoryview(bytearray(segment[: rng.choice((len(segment), starts[-1] + 50, starts[1] + 3))]))
    places = [*starts, *EXTREMES, len(cut) - 40, len(cut) - 39]
    for start, first, end in ((0, 0, len(cut)), (0, starts[2], 2**62), (2**62, 0, 2**63 - 1), (4096, -(2**63), 2**63 - 1)):
        views = assert_same("readdress.record_views", cut, start, first, end, places)
    views = assert_same("readdress.record_views", cut, 0, 0, len(cut), places)
    records = [None if view is None else bytes(view)[: rng.choice((len(view), rng.randrange(len(view))))] for view in views]
    records += [bytes(cut[start : start + 300]) for start in starts]
    sound = [record for topic, _ in QUEUES for record in assert_same("readdress.parse_waiting_records", records, topic) if record]
    address = Address("orders", 1, MAGIC, b"\x06orders", 7, ("k",), None, commits=True)
    for record in [one for one in records if one]:  # the reference takes sound records only
        TWINS["readdress.readdress_records"].compiled([(record, address, None, b"")], (0, 2000, START_MS, 0), lambda _: 5)
    for waiting in sound:
        assert_same("readdress.readdress_records", [(waiting[0], address, None, b"")], (0, 2000, START_MS, 0), lambda _: 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_equal(seed: int):
    """What the offline reader and Spark take out of a segment."""
    pytest.importorskip("pyarrow")
    import numpy as np

    import skyrocket.columnar.queue  # noqa: F401 — and with it everything that has a twin there

    segment, starts = a_spoiled_log(seed)
    cut = memoryview(bytearray(segment[: Random(seed).choice((len(segment), starts[-1] + FIXED_BYTES_MIN, starts[1] + 3))]))
    for at in (*starts, len(cut) - FIXED_BYTES_MIN, len(cut), 2**62):
        assert_same("columnar.find_record_starts", cut, at, 2**62, 100)
    fitting = np.array([start for start in starts if start <= len(cut) - FIXED_BYTES_MIN], np.int64)
    for count in range(len(fitting)):
        for summed in range(3):
            assert_same("columnar.locate_fields", np.frombuffer(cut, np.uint8), None, fitting[count : count + 5], summed)

"""A window of queue entries returns what the queue returns, whatever happens to the queue in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.store.cold_reads import ColdReads, ReadAttempt
from skyrocket.store.files import OpenFiles
from skyrocket.store.queues.consume_queue import ENTRY, ConsumeQueue
from skyrocket.store.queues.entry_window import WINDOW_ENTRIES, EntryWindow
from tests.support.stores.simulated_disk import SimulatedDisk

PER_FILE = 300


def a_queue(reads: ColdReads | None = None) -> ConsumeQueue:
    disk = SimulatedDisk()
    return ConsumeQueue(disk, OpenFiles(disk, 10), "cq/t/0", PER_FILE, reads)


def append(queue: ConsumeQueue, count: int, tag: int = 0) -> None:
    first = queue.max_offset
    queue.append(first, b"".join(ENTRY.pack(100 * number, 100, tag) for number in range(first, first + count)))


steps = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 700), st.integers(1, 100)),
    st.tuples(st.just("read"), st.integers(0, 700), st.integers(1, 100)),
    st.tuples(st.just("append"), st.integers(1, 400), st.just(0)),
    st.tuples(st.just("write"), st.just(0), st.just(0)),
    st.tuples(st.just("replace"), st.integers(0, 700), st.just(0)),
    st.tuples(st.just("truncate"), st.integers(0, 700), st.just(0)),
    st.tuples(st.just("remove"), st.just(0), st.just(0)),
)


@given(st.lists(steps, max_size=30))
def test_a_window_returns_what_the_queue_returns(several: list[tuple[str, int, int]]):
    queue, window = a_queue(), EntryWindow()
    append(queue, 350)
    queue.write_late()
    for number, (what, first, count) in enumerate(several):
        if what == "append":
            append(queue, first, number)
        elif what == "write":
            queue.write_late()
        elif what == "replace" and first < queue.max_offset:
            queue.replace(first, ENTRY.pack(7, 7, number))
        elif what == "truncate":
            queue.write_late()
            queue.truncate(first)
        elif what == "remove":
            queue.remove()
        elif what == "read":
            assert window.read(queue, first, count) == queue.read(first, count)


def test_a_reader_that_goes_on_reads_the_file_once_for_many_reads(monkeypatch: Any):
    queue, window, read = a_queue(), EntryWindow(), list[int]()
    append(queue, WINDOW_ENTRIES)
    queue.write_late()
    of_queue = queue.read
    monkeypatch.setattr(queue, "read", lambda offset, count: read.append(offset) or of_queue(offset, count))
    assert b"".join(window.read(queue, first, 32) for first in range(0, WINDOW_ENTRIES, 32)) == of_queue(0, WINDOW_ENTRIES)
    assert read == [0]


def test_a_window_belongs_to_its_queue():
    queue, other, window = a_queue(), a_queue(), EntryWindow()
    append(queue, 64, 1)
    append(other, 64, 2)
    queue.write_late()
    other.write_late()
    assert window.read(queue, 0, 8) == queue.read(0, 8)
    assert window.read(other, 0, 8) == other.read(0, 8)


def test_entries_that_are_not_in_memory_are_not_read_ahead(monkeypatch: Any):
    reads = ColdReads()
    queue, window = a_queue(reads), EntryWindow()
    append(queue, 200)
    queue.write_late()
    file = queue._segments.file(0)
    monkeypatch.setattr(
        file, "read_into_now", lambda at, buffer: len(buffer) <= 8 * ENTRY.size and file.read_into(at, buffer) > 0
    )
    assert len(reads.read_now(lambda: window.read(queue, 0, 8), ReadAttempt())) == 8 * ENTRY.size

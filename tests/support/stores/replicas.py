"""Two stores, one of which copies the other's log, for tests without a network."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from skyrocket.store.message_store import MessageStore
from skyrocket.store.replica.log_reader import LogReader
from skyrocket.store.replica.record_splitter import RecordSplitter


def log_bytes(store: MessageStore) -> bytes:
    """The whole log."""
    return b"".join(_segments(store))


def _segments(store: MessageStore) -> Iterator[bytes]:
    log = store.log
    for start in log.segments.starts:
        if start < log.end:
            yield log.segments.file(start).read(0, min(log.end - start, log.segments.segment_bytes))


def copy_log(master: MessageStore, slave: MessageStore, rng: Random, most: int = 5_000, until: int | None = None) -> None:
    """Let the slave append what it does not have, in pieces of any size that never cross the end of a segment."""
    log, mine = master.log, slave.log
    is_empty = mine.end == mine.start
    position = log.start if is_empty else mine.end
    if is_empty and position != mine.end:
        slave.replica.begin_at(position)
    splitter = RecordSplitter(log.segments.segment_bytes, position)
    stop = log.end if until is None else until
    while position < stop:
        start = log.segments.start_of(position)
        assert start is not None
        size = min(rng.randint(1, most), stop - position, start + log.segments.segment_bytes - position)
        for run in splitter.feed(log.segments.file(start).read(position - start, size)):
            slave.replica.append(run)
        position += size


def cut_log(store: MessageStore, offset: int) -> str:
    """Cut the log, and return the directory where the rest is kept."""
    job = store.replica.begin_cut(offset)
    job.run()
    store.replica.finish_cut(job)
    return job.kept_in


def reader_of(store: MessageStore) -> LogReader:
    return LogReader(store.log, store._files)

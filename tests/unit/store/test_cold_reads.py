"""What a thread has read for a reader that does not wait: little of it is kept, however much was read."""

from __future__ import annotations

import pytest

from skyrocket.store.cold_reads import REPEATS_MAX, ColdReads, NotInMemoryError, ReadAttempt, RepeatedReads
from tests.support.stores.simulated_disk import SimulatedDisk

SIZE = 1024 * 1024


def test_large_ranges_are_left_to_the_page_cache():
    disk, reads, attempt = SimulatedDisk(), ColdReads(), ReadAttempt()
    file = disk.create("file", SIZE, 0)
    disk.forget_pages()
    with pytest.raises(NotInMemoryError) as missing:
        reads.read_now(lambda: reads.read(file, 0, SIZE), attempt)
    missing.value.fetch()
    assert not attempt._found
    assert reads.read_now(lambda: reads.read(file, 0, SIZE), attempt) == bytes(SIZE)


def test_read_that_never_finds_its_bytes_waits_after_some_repeats():
    disk, reads = SimulatedDisk(), ColdReads()
    file, repeated = disk.create("file", SIZE, 0), RepeatedReads(reads)
    for _ in range(REPEATS_MAX):
        disk.forget_pages()
        with pytest.raises(NotInMemoryError):
            repeated.read("name", lambda: reads.read(file, 0, SIZE))
    disk.forget_pages()
    assert repeated.read("name", lambda: reads.read(file, 0, SIZE)) == bytes(SIZE)

"""The checkpoint comes back as it was written, and tells when someone else wrote it."""

from __future__ import annotations

import pytest

from skyrocket.store.recovery.checkpoint import PAGE_BYTES, Checkpoint, CheckpointFile, decode_checkpoint, encode_checkpoint
from tests.support.simulated_disk import SimulatedDisk

OURS = Checkpoint(11, 12, 13, 14, 15, 16, safe_end=1000, dispatch_end=900, queue_count=7, entry_count=70)


def test_ours_comes_back():
    page = encode_checkpoint(OURS)
    assert len(page) == PAGE_BYTES
    assert decode_checkpoint(page) == OURS
    assert OURS.is_ours


def test_apaches_six_numbers_are_at_the_front():
    assert encode_checkpoint(OURS)[:48] == b"".join(n.to_bytes(8) for n in range(11, 17))


def test_what_apache_writes_over_it_is_noticed():
    page = bytearray(encode_checkpoint(OURS))
    page[0:8] = (99).to_bytes(8)
    found = decode_checkpoint(bytes(page))
    assert found[:6] == (99, 12, 13, 14, 15, 16)
    assert not found.is_ours
    assert (found.safe_end, found.dispatch_end, found.queue_count) == (None, None, None)


def test_every_bit_that_counts_is_covered():
    page = encode_checkpoint(OURS)
    for at in (*range(48), *range(64, 96)):
        for bit in range(8):
            flipped = bytearray(page)
            flipped[at] ^= 1 << bit
            assert not decode_checkpoint(bytes(flipped)).is_ours, f"bit {bit} of byte {at}"


@pytest.mark.parametrize("page", [b"", b"\0" * 10, b"\0" * 4096])
def test_a_page_of_nothing_is_a_checkpoint_of_zeros(page: bytes):
    assert decode_checkpoint(page) == Checkpoint()


def test_a_missing_file_is_a_checkpoint_of_zeros():
    assert CheckpointFile(SimulatedDisk(), "checkpoint").read() == Checkpoint()


def test_it_is_written_only_when_it_changed():
    disk = SimulatedDisk()
    file = CheckpointFile(disk, "checkpoint")
    file.write(OURS)
    file.write(OURS)
    assert disk.counts["replace"] == 1
    file.write(OURS._replace(dispatch_end=1000))
    assert disk.counts["replace"] == 2
    assert file.read().dispatch_end == 1000

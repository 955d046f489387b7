"""The checkpoint survives encoding, and shows when another program has written it."""

from __future__ import annotations

import pytest

from skyrocket.store.recovery.checkpoint import PAGE_BYTES, Checkpoint, CheckpointFile, decode_checkpoint, encode_checkpoint
from tests.support.stores.simulated_disk import SimulatedDisk

OURS = Checkpoint(11, 12, 13, 14, 15, 16, safe_end=1000, dispatch_end=900, queue_count=7, entry_count=70)


def test_our_checkpoint_survives_encoding():
    page = encode_checkpoint(OURS)
    assert len(page) == PAGE_BYTES
    assert decode_checkpoint(page) == OURS
    assert OURS.is_ours


def test_apaches_six_fields_come_first():
    assert encode_checkpoint(OURS)[:48] == b"".join(n.to_bytes(8) for n in range(11, 17))


def test_page_overwritten_by_apache_is_not_ours():
    page = bytearray(encode_checkpoint(OURS))
    page[0:8] = (99).to_bytes(8)
    found = decode_checkpoint(bytes(page))
    assert found[:6] == (99, 12, 13, 14, 15, 16)
    assert not found.is_ours
    assert (found.safe_end, found.dispatch_end, found.queue_count) == (None, None, None)


def test_crc_covers_every_used_bit():
    page = encode_checkpoint(OURS)
    for at in (*range(48), *range(64, 96)):
        for bit in range(8):
            flipped = bytearray(page)
            flipped[at] ^= 1 << bit
            assert not decode_checkpoint(bytes(flipped)).is_ours, f"bit {bit} of byte {at}"


@pytest.mark.parametrize("page", [b"", b"\0" * 10, b"\0" * 4096])
def test_empty_page_is_a_checkpoint_of_zeros(page: bytes):
    assert decode_checkpoint(page) == Checkpoint()


def test_a_missing_file_is_a_checkpoint_of_zeros():
    assert CheckpointFile(SimulatedDisk(), "checkpoint").read() == Checkpoint()


def test_unchanged_checkpoint_is_not_written():
    disk = SimulatedDisk()
    file = CheckpointFile(disk, "checkpoint")
    file.write(OURS)
    file.write(OURS)
    assert disk.counts["replace"] == 1
    file.write(OURS._replace(dispatch_end=1000))
    assert disk.counts["replace"] == 2
    assert file.read().dispatch_end == 1000

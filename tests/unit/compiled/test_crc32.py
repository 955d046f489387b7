"""The twins' checksum is zlib's, whichever way it is computed: by tables, or folded 64 or 256 bytes at a time."""

from __future__ import annotations

import random
import struct
import zlib

import pytest

from skyrocket.compiled import TWINS
from tests.support.twins import needs_twins

STEPS = 256  # bytes that are folded at once, at most: lengths of some times that, and all between them
DATA = random.Random(32).randbytes(8 * STEPS + 64)


@needs_twins
@pytest.mark.parametrize("start", [0, 1, 7, 8, 31, 63])
def test_every_length_has_zlibs_checksum(start: int):
    checksum_entries = TWINS["dispatch_entries.pack_checksums"].compiled
    wrong = []
    for size in range(8 * STEPS):
        data = DATA[start : start + size]
        _, crc = struct.unpack(">II", checksum_entries(data, 0, [0, size], 0))
        if crc != zlib.crc32(data):
            wrong.append(size)
    assert not wrong, f"lengths {wrong[:10]} have another"

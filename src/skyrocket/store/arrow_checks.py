"""Whether records are what was written: by the checksum over the record, or by the body's where there is none."""

from __future__ import annotations

from typing import Final

import numpy as np

from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.store.arrow_rows import Bools, Ints, Rows
from skyrocket.store.offline_log import OfflineLog

_JAVA_INT: Final = 0x7FFF_FFFF  # a body's CRC is kept without its top bit


def _sums(view: memoryview, first: Ints, last: Ints) -> bytes:
    """The CRC-32 of each range, as packed int64."""
    return np.array([crc32(view[a:b]) for a, b in zip(first.tolist(), last.tolist(), strict=True)], np.int64).tobytes()


sums = twin("rows", _sums)


class RowChecks:
    def __init__(self, log: OfflineLog) -> None:
        self._log = log
        self._sums: tuple[int, Ints, Ints] = (-1, np.zeros(0, np.int64), np.zeros(0, np.int64))  # of one segment

    def whole(self, rows: Rows, view: memoryview, segment_start: int) -> Bools:
        """For each row of a segment whose bytes are `view`."""
        ends, kept = self._sums_of(segment_start)
        expected = rows.crc.copy()
        first, last = rows.body.copy(), rows.body_end
        mask = np.full(len(rows), _JAVA_INT)
        if len(ends):
            place = np.minimum(np.searchsorted(ends, rows.end), len(ends) - 1)
            known = ends[place] == rows.end
            expected[known] = kept[place[known]]
            first[known] = rows.start[known]
            last = np.where(known, rows.end, last)
            mask[known] = 0xFFFF_FFFF
        found = np.frombuffer(sums(view, first, last), np.int64)
        fits: Bools = (found & mask) == expected
        return fits

    def _sums_of(self, segment_start: int) -> tuple[Ints, Ints]:
        if self._sums[0] != segment_start:
            packed = b"" if self._log.checksums is None else self._log.checksums.entries(segment_start)
            pairs = np.frombuffer(packed, ">u4").reshape(-1, 2).astype(np.int64)
            self._sums = (segment_start, pairs[:, 0].copy(), pairs[:, 1].copy())
        return self._sums[1:]

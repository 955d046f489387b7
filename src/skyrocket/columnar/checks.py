"""Check records by the checksum over the whole record, or by the CRC of the body when there is no checksum."""

from __future__ import annotations

from typing import Final

import numpy as np

from skyrocket.columnar.ranges import Bools, Ints
from skyrocket.columnar.rows import ChecksumScope, RecordRows, compute_crcs
from skyrocket.store.offline.offline_log import OfflineLog

_JAVA_INT: Final = 0x7FFF_FFFF  # a record stores the CRC of its body without the top bit


class RowChecks:
    def __init__(self, log: OfflineLog) -> None:
        self._log = log
        self._sums: tuple[int, Ints, Ints] = (-1, np.zeros(0, np.int64), np.zeros(0, np.int64))  # of one segment

    def checksum_scope(self, segment_start: int) -> ChecksumScope:
        """Return which CRC to compute of this segment's records."""
        return ChecksumScope.RECORD if len(self._sums_of(segment_start)[0]) else ChecksumScope.BODY

    def are_intact(self, rows: RecordRows, view: memoryview, segment_start: int) -> Bools:
        """Return for each row whether its record matches its checksum. `view` has the bytes of the segment."""
        ends, kept = self._sums_of(segment_start)
        fits: Bools
        if not len(ends) and rows.checksum_scope == ChecksumScope.BODY:
            fits = (rows.sum & _JAVA_INT) == rows.crc
            return fits
        place = _entries(ends, rows.end)
        known = ends[place] == rows.end if len(ends) else np.zeros(len(rows), np.bool_)
        if rows.checksum_scope == ChecksumScope.RECORD and known.all():
            fits = rows.sum == kept[place]
            return fits
        expected = np.where(known, kept[place], rows.crc) if len(ends) else rows.crc
        found = np.frombuffer(
            compute_crcs(view, np.where(known, rows.start, rows.body), np.where(known, rows.end, rows.body_end)), np.int64
        )
        fits = (found & np.where(known, 0xFFFF_FFFF, _JAVA_INT)) == expected
        return fits

    def _sums_of(self, segment_start: int) -> tuple[Ints, Ints]:
        if self._sums[0] != segment_start:
            packed = b"" if self._log.checksums is None else self._log.checksums.entries(segment_start)
            pairs = np.frombuffer(packed, ">u4").reshape(-1, 2)
            self._sums = (
                segment_start,
                pairs[:, 0].astype(np.int64),
                pairs[:, 1],
            )  # the CRCs are converted when they are compared
        return self._sums[1:]


def _entries(ends: Ints, wanted: Ints) -> slice | Ints:
    """Return the positions of these ends in the sorted array of all ends. As a rule they are consecutive."""
    first = int(np.searchsorted(ends, wanted[0])) if len(wanted) else 0
    following = slice(first, first + len(wanted))
    if np.array_equal(ends[following], wanted):
        return following
    return np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)

"""When each closed segment of the log got its last message: retention goes by that.

    segment 3                      segment 4
    ... | record | record | blank  | record | damaged | filler | record | ...
                                   ^ stored when segment 3 was full

The first sound messages of the next segment tell it. The latest of a few of them counts, because a flipped bit in one store time
must not delete a segment early. A store time that lies in the future is not believed. Where no message can be read, the file's
own time counts. So damage never stops retention.

A closed segment does not change: each is examined once, and remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise

from skyrocket.store.files import Files
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.scan import PLAIN, FoundRecord, RecordFraming, walk_segment

PROBES_BYTES = (64 * 1024, 8 * 1024 * 1024)  # of the next segment; the second is larger than any message
WITNESSES_MAX = 8  # messages whose store times are compared


class SegmentAges:
    """Reads files with handles of its own, so it may run in another thread than the store; in one at a time."""

    def __init__(self, files: Files, path_of: Callable[[int], str], framing: RecordFraming = PLAIN) -> None:
        """`path_of` returns the path of the segment that starts at an offset."""
        self._framing = framing
        self._files = files
        self._path_of = path_of
        self._known: dict[int, int] = {}

    def last_stored_ms(self, starts: list[int], now_ms: int) -> list[int]:
        """Return the time of each segment but the last one, whose time is not known before the next one begins."""
        self._known = {start: stored_ms for start, stored_ms in self._known.items() if start in starts}
        for start, following in pairwise(starts):
            if start not in self._known:
                stored_ms = self._first_stored_ms(following, now_ms)
                self._known[start] = self._modified_ms(start) if stored_ms is None else stored_ms
        return [self._known[start] for start in starts[:-1]]

    def _modified_ms(self, start: int) -> int:
        try:
            return self._files.modified_ms(self._path_of(start))
        except FileNotFoundError:
            return 0  # somebody deleted the file: nothing is left to keep

    def _first_stored_ms(self, start: int, now_ms: int) -> int | None:
        """Return when a segment got its first messages; None when none of them can be read, or the disk fails."""
        try:
            file = self._files.open(self._path_of(start), writable=False)
        except OSError:
            return None
        try:
            for size in PROBES_BYTES:
                found = _store_times(memoryview(file.read(0, min(size, file.size))), start, self._framing)
                believed = [stored_ms for stored_ms in found if stored_ms <= now_ms]
                if believed:
                    return max(believed)
        except OSError:
            return None
        finally:
            file.close()
        return None


def _store_times(view: memoryview, start: int, framing: RecordFraming) -> list[int]:
    """Return the store times of the first sound messages in the first bytes of a segment."""
    times = (
        item.record.store_timestamp
        for item in walk_segment(view, start, framing=framing)
        if isinstance(item, FoundRecord) and not is_filler(item.record)
    )
    return list(islice(times, WITNESSES_MAX))

"""The progress of each delay level: the offset to read next, and the offset that `delayOffset.json` may contain.

    next_offset(level, least, most)     the offset to read next, within the queue's bounds
    advance(level, offset, position)    everything before `offset` is delivered; the deliveries end at `position` in the log
    snapshot()                          the content of `delayOffset.json`: offsets that are delivered *and* safe

A delivery is safe once the log is confirmed that far (`safe_position`: on disk, and on replicas where that is promised). Until
then the file holds an earlier offset, so that a crash delivers a message twice rather than never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from skyrocket.protocol.bodies import DataVersion, DelayOffsetSerializeWrapper

UNSAFE_MAX: Final = 1024
"""Unsafe deliveries of one level that are tracked one by one. Beyond this bound, several become safe together."""


class DelayLevelProgress:
    def __init__(self, safe_position: Callable[[], int], wall_ms: Callable[[], int]) -> None:
        self._safe_position = safe_position
        self._wall_ms = wall_ms
        self._delivered: dict[int, int] = {}  # level -> offset
        self._safe: dict[int, int] = {}
        self._unsafe: dict[int, deque[tuple[int, int]]] = {}  # level -> (position, offset), both ascending
        self._changes = 0
        self._shown_changes = 0
        self.version = DataVersion(timestamp=wall_ms())

    # --- reading

    def next_offset(self, level: int, least: int, most: int) -> int:
        """Return the offset to read next, and correct progress outside the queue's bounds.

        Such progress occurs when old messages were deleted, or when the log lost its end and new messages took those offsets.
        """
        delivered = self._delivered.get(level, 0)
        within = min(max(delivered, least), most)
        if within != delivered or (most and level not in self._delivered):
            self._unsafe.pop(level, None)
            self._delivered[level] = self._safe[level] = within
            self._changes += 1
        return within

    def advance(self, level: int, offset: int, position: int) -> None:
        self._delivered[level] = offset
        unsafe = self._unsafe.setdefault(level, deque())
        if len(unsafe) >= UNSAFE_MAX:
            unsafe.pop()
        unsafe.append((position, offset))

    # --- the table as a file

    @property
    def changes(self) -> int:
        self._collect_safe()
        return self._changes

    def load(self, saved: DelayOffsetSerializeWrapper) -> None:
        self._delivered = dict(saved.offset_table)
        self._safe = dict(saved.offset_table)
        self.version = saved.data_version or self.version

    def follow(self, master: DelayOffsetSerializeWrapper) -> None:
        """Take the master's progress, which a slave copies."""
        self._unsafe.clear()
        if dict(master.offset_table) != self._safe:
            self._changes += 1
        self.load(master)
        self._shown_changes = self._changes  # the version stays the master's

    def snapshot(self) -> DelayOffsetSerializeWrapper:
        self._collect_safe()
        if self._changes != self._shown_changes:
            self._shown_changes = self._changes
            self.version = self.version.next(0, self._wall_ms())
        return DelayOffsetSerializeWrapper(offset_table=dict(sorted(self._safe.items())), data_version=self.version)

    def delivered_offsets(self) -> dict[int, int]:
        return dict(sorted(self._delivered.items()))

    def _collect_safe(self) -> None:
        safe_position = self._safe_position()
        for level, unsafe in self._unsafe.items():
            while unsafe and unsafe[0][0] <= safe_position:
                _, self._safe[level] = unsafe.popleft()
                self._changes += 1

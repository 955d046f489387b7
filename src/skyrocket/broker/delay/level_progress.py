"""How far each delay level is: from where its queue is read on, and how much of that the file may say.

    next_offset(level, least, most)     where to read on, within what its queue has
    moved(level, offset, position)      everything before `offset` was delivered; the last of it lies before `position` in the log
    snapshot()                          for `delayOffset.json`: only what is delivered *and* safe

A delivery counts once it is safe (`safe_position`: on disk, and wherever else it has to be). Until then the file names an earlier
offset, so that a crash delivers twice rather than never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from skyrocket.protocol.bodies import DataVersion, DelayOffsetSerializeWrapper

UNSAFE_MAX: Final = 1024
"""Deliveries of one level that are remembered one by one until they are safe; beyond, several become safe together."""


class DelayProgress:
    def __init__(self, safe_position: Callable[[], int], wall_ms: Callable[[], int]) -> None:
        self._safe_position = safe_position
        self._wall_ms = wall_ms
        self._delivered: dict[int, int] = {}  # level -> offset
        self._safe: dict[int, int] = {}
        self._unsafe: dict[int, deque[tuple[int, int]]] = {}  # level -> (position, offset), both growing
        self._changes = 0
        self._shown_changes = 0
        self.version = DataVersion(timestamp=wall_ms())

    # --- reading on

    def next_offset(self, level: int, least: int, most: int) -> int:
        """Where level's queue is read on. Progress outside of what the queue has is put right: messages before it are gone, or
        the log lost its end, and what comes there now is new."""
        delivered = self._delivered.get(level, 0)
        within = min(max(delivered, least), most)
        if within != delivered or (most and level not in self._delivered):
            self._unsafe.pop(level, None)
            self._delivered[level] = self._safe[level] = within
            self._changes += 1
        return within

    def moved(self, level: int, offset: int, position: int) -> None:
        self._delivered[level] = offset
        unsafe = self._unsafe.setdefault(level, deque())
        if len(unsafe) >= UNSAFE_MAX:
            unsafe.pop()
        unsafe.append((position, offset))

    # --- as a table that is kept in a file

    @property
    def changes(self) -> int:
        self._settle()
        return self._changes

    def load(self, saved: DelayOffsetSerializeWrapper) -> None:
        self._delivered = dict(saved.offset_table)
        self._safe = dict(saved.offset_table)
        self.version = saved.data_version or self.version

    def snapshot(self) -> DelayOffsetSerializeWrapper:
        self._settle()
        if self._changes != self._shown_changes:
            self._shown_changes = self._changes
            self.version = self.version.next(0, self._wall_ms())
        return DelayOffsetSerializeWrapper(offset_table=dict(sorted(self._safe.items())), data_version=self.version)

    def delivered(self) -> dict[int, int]:
        return dict(sorted(self._delivered.items()))

    def _settle(self) -> None:
        safe_position = self._safe_position()
        for level, unsafe in self._unsafe.items():
            while unsafe and unsafe[0][0] <= safe_position:
                _, self._safe[level] = unsafe.popleft()
                self._changes += 1

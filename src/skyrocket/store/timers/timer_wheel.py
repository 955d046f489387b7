"""The timer wheel: for each slot of time (one second by default), where its units begin and end in the timer log.

    slot 0        slot 1        …        slot 2·N-1        N: seven days of seconds, as in Apache's; the slots are reused in a
    circle +------+------+------+------+--------+------+ |      |      |      |      |        |      |
    +------+------+------+------+--------+------+

     0             8             16            24       28       32
     +-------------+-------------+-------------+--------+--------+
     | time, in    | first unit  | last unit   | units  | unused |
     | slots       | in the log  | in the log  |        |        |
     +-------------+-------------+-------------+--------+--------+

A slot whose time is not the one asked for is left over from an earlier round, and counts as empty. A unit that deletes a message
lowers the count of units by one.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from skyrocket.store.errors import store_error
from skyrocket.store.files import File, Files
from skyrocket.store.timers.timer_log import NO_POSITION

SLOT: Final = struct.Struct(">qqqii")
ROUNDS: Final = 2  # a file covers twice the longest delay, so that overdue slots are not overwritten


class WheelSlot(NamedTuple):
    first: int
    last: int
    units: int


EMPTY_SLOT: Final = WheelSlot(NO_POSITION, NO_POSITION, 0)


class TimerWheel:
    def __init__(self, files: Files, path: str, slots: int, precision_ms: int) -> None:
        self._files = files
        self._path = path
        self._replaced = f"{path}.replaced"  # the wheel before, until the new one is durable
        self._slots = slots * ROUNDS
        self._precision_ms = precision_ms
        self._file: File | None = None
        self._window = memoryview(b"")
        self._is_new = False  # its name may not be durable yet

    @property
    def size_bytes(self) -> int:
        return self._slots * SLOT.size

    def is_there(self) -> bool:
        return self._files.exists(self._path) and self._files.size(self._path) == self.size_bytes

    def open(self) -> None:
        """Open a wheel that we created: all of its space is allocated on disk."""
        self._use(self._files.open(self._path, writable=True))

    def create(self) -> None:
        """Create an empty wheel, in place of an existing one. It is durable with the first `sync`.

        Without a sync, the event loop of a broker that becomes master does not wait for the disk. A wheel that a power failure
        takes is rebuilt: only a checkpoint that was written after a sync says that the wheel on disk can be used.
        """
        self.close()
        try:
            if self._files.exists(self._path):
                if self._files.exists(self._replaced):
                    self._files.remove(self._replaced)
                self._files.move(self._path, self._replaced)
            self._use(self._files.create(self._path, self.size_bytes, self.size_bytes, durable=False))
            self._is_new = True
        except OSError as error:
            raise store_error(f"creating {self._path}", error) from error

    def _use(self, file: File) -> None:
        self._file = file
        self._window = file.window(self.size_bytes)

    def slot(self, time_ms: int) -> WheelSlot:
        stretch = time_ms // self._precision_ms
        said, first, last, units, _ = SLOT.unpack_from(self._window, stretch % self._slots * SLOT.size)
        return WheelSlot(first, last, units) if said == stretch else EMPTY_SLOT

    def link(self, time_ms: int, first: int, last: int, units: int) -> None:
        """Add units to a slot. They are already chained to each other and to the slot's last unit."""
        stretch = time_ms // self._precision_ms
        at = stretch % self._slots * SLOT.size
        said, first_of_all, _, units_before, unused = SLOT.unpack_from(self._window, at)
        if said == stretch:
            first, units = first_of_all, units_before + units
        SLOT.pack_into(self._window, at, stretch, first, last, units, unused)

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()
            if self._is_new:
                self._files.remove(self._replaced)  # which makes the names durable, too
                self._is_new = False

    def close(self) -> None:
        self._window = memoryview(b"")
        if self._file is not None:
            self._file.close()
            self._file = None

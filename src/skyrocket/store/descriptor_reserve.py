"""Descriptors that are kept for the store, so that connections cannot use up all of them.

A process may open only so many files and sockets together (`ulimit -n`). The server refuses connections before they take what the
store needs (`net.descriptors`), but accepted connections count for a moment before they are refused. In such a moment an
operation of the store that fails for want of a descriptor gets one from this reserve, and is repeated.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

RESERVED_DESCRIPTORS = 32  # more than one append, one save and one checkpoint open at the same time
_NONE_LEFT = (errno.EMFILE, errno.ENFILE)

T = TypeVar("T")


class DescriptorReserve:
    """Holds `most` descriptors open, which belong to no file. Any thread may use it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[int] = []
        self._lock = Lock()
        self._fill()

    def take(self, operation: Callable[[], T]) -> T:
        """Run an operation that opens something. While it finds no descriptor, give up one of the reserve, and repeat it."""
        while True:
            try:
                result = operation()
            except OSError as error:
                if error.errno not in _NONE_LEFT or not self._give_up_one():
                    raise
            else:
                if len(self._held) < self._most:
                    self._fill()
                return result

    def _give_up_one(self) -> bool:
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            return True

    def _fill(self) -> None:
        """Open what is missing of the reserve, if there are descriptors again."""
        with self._lock, suppress(OSError):
            while len(self._held) < self._most:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def __len__(self) -> int:
        return len(self._held)

    def close(self) -> None:
        with self._lock:
            while self._held:
                os.close(self._held.pop())

    def __del__(self) -> None:
        self.close()

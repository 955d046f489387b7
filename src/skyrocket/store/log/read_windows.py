"""The ranges of the log that were read from its files lately, for reads that follow one another.

    log     ---q0-q1-q2-q3-q0-q1-q2-q3-q0-q1-q2-q3-q0-q1-q2-q3---     records of four queues alternate
    window     |---------------------------------------|

A pull of one queue reads the records of all queues in between. A pull of the next queue needs nearly the same range, so a window
serves both. A window begins where a read begins. If the read continues or overlaps an earlier window, somebody reads the log in
order, and the window reaches further than was asked for.

Bytes of the log change only where the log ends, and when the log is cut, scrubbed or written again: then all windows are dropped.

Windows have buffers of one size, which are used again: reading into fresh memory costs more than the read, because the system
clears each page first. A buffer that somebody still looks at is left to him.
"""

from __future__ import annotations

from typing import Final, NamedTuple

WINDOWS_MAX: Final = 8
RUN_BYTES_MAX: Final = 2 * 1024 * 1024  # of a run of records; copying that takes about as long as reading 32 single ones
AHEAD_BYTES: Final = 256 * 1024  # read beyond what was asked for
_BUFFER_BYTES: Final = RUN_BYTES_MAX + AHEAD_BYTES
_NEAR_BYTES: Final = 64 * 1024  # behind a window, where a read still continues it


class ReadWindow(NamedTuple):
    """Bytes of the log from `first` to `stop`."""

    first: int
    stop: int
    data: memoryview
    buffer: bytearray  # that holds them, and can be used again


class ReadWindows:
    def __init__(self) -> None:
        self._windows: list[ReadWindow] = []  # the last one used is the first one
        self._spare: bytearray | None = None
        self._passed = -1  # where the last single record ended that was read without a window

    def find(self, offset: int, stop: int) -> ReadWindow | None:
        """Return the window that contains this range."""
        windows = self._windows
        for number, window in enumerate(windows):
            if window[0] <= offset and stop <= window[1]:
                if number:
                    del windows[number]
                    windows.insert(0, window)
                return window
        return None

    def continues(self, offset: int) -> bool:
        """Whether a read at `offset` overlaps a window, or closely follows one or the last single record."""
        if 0 <= offset - self._passed <= _NEAR_BYTES and self._passed >= 0:
            return True
        return any(first <= offset <= stop + _NEAR_BYTES for first, stop, _, _ in self._windows)

    def pass_by(self, stop: int) -> None:
        """Note that a single record was read that ends here. Most are looked up one by one, so it gets no window."""
        self._passed = stop

    def take_buffer(self) -> bytearray:
        """Return a buffer to read into. `add` takes it back; a read that failed leaves it to nobody."""
        spare, self._spare = self._spare, None
        return bytearray(_BUFFER_BYTES) if spare is None else spare

    def add(self, first: int, size: int, buffer: bytearray) -> ReadWindow:
        """Keep `size` bytes of the log from `first` on, and forget the window that was not used for longest."""
        window = ReadWindow(first, first + size, memoryview(buffer)[:size].toreadonly(), buffer)
        self._windows.insert(0, window)
        if len(self._windows) > WINDOWS_MAX:
            self._reuse(self._windows.pop())
        return window

    def drop(self) -> None:
        self._windows.clear()
        self._spare, self._passed = None, -1

    def _reuse(self, window: ReadWindow) -> None:
        buffer = window.buffer
        window.data.release()
        try:
            buffer.append(buffer.pop())  # Python refuses to resize a bytearray that a memoryview refers to
        except BufferError:
            return
        self._spare = buffer

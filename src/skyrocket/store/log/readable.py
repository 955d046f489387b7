"""Read files of a disk that may not return every page.

A scan looks at a file through a mapping. Reading a page there that the disk does not return ends the process with SIGBUS, and so
would the next start, which scans the same page. So a scan first reads the range with calls that raise an error instead.
"""

from __future__ import annotations

from skyrocket.store.files import File
from skyrocket.store.log.scan import BLANK, PLAIN, RecordFraming

PAGE_BYTES = 4096
_PIECE_BYTES = 1024 * 1024


def readable_view(file: File, at: int, size: int | None = None) -> memoryview:
    """Return a file's bytes, of which those from `at` on can be read, or `size` bytes from there on. Holes always can.

    Where the disk does not return a page, the bytes are a copy with 0xFF in its place. A scan takes that for damage; zeros would
    look like the end of the log.
    """
    stop = file.data_end(at) if size is None else min(file.size, at + size)
    try:
        for piece_at in range(at, stop, _PIECE_BYTES):
            piece_bytes = min(_PIECE_BYTES, stop - piece_at)
            if len(file.read(piece_at, piece_bytes)) < piece_bytes:
                return _copy(file, at, stop)
    except OSError:
        return _copy(file, at, stop)
    return file.view()


def readable_record(file: File, at: int, framing: RecordFraming = PLAIN) -> memoryview:
    """Return a file's bytes, of which those of the frame at `at` can be read, as with `readable_view`.

    Of a blank, which fills the rest of its file, only the size and the magic are read.
    """
    head_bytes = max(BLANK.size, framing.header_bytes)
    size = framing.frame_bytes(read_readable(file, at, head_bytes))
    return readable_view(file, at, max(size, head_bytes))


def read_readable(file: File, at: int, size: int) -> bytes:
    """Return bytes of a file, with 0xFF in place of pages that the disk does not return."""
    stop = at + size
    pieces: list[bytes] = []
    while at < stop:
        piece_bytes = min(PAGE_BYTES - at % PAGE_BYTES, stop - at)
        try:
            piece = file.read(at, piece_bytes)
        except OSError:
            piece = b""
        pieces.append(piece.ljust(piece_bytes, b"\xff"))
        at += piece_bytes
    return b"".join(pieces)


def _copy(file: File, at: int, stop: int) -> memoryview:
    copied = bytearray(file.size)  # the system gives it no memory for what is not written
    for piece_at in range(at, stop, _PIECE_BYTES):
        piece_bytes = min(_PIECE_BYTES, stop - piece_at)
        copied[piece_at : piece_at + piece_bytes] = read_readable(file, piece_at, piece_bytes)
    return memoryview(copied).toreadonly()

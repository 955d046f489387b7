"""Frames: how commands are laid out in a byte stream.

     0               4               8            8+H                 4+L
     +---------------+---+-----------+-------------+-------------------+
     | L: bytes that | S | H: header | header, as  | body, L-4-H bytes |
     | follow        |   | bytes     | S says      |                   |
     +---------------+---+-----------+-------------+-------------------+
      int32            u8  u24         JSON or binary

A splitter takes bytes in pieces of any size and returns the complete frames. It does not look into them; `command` decodes them.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

PREFIX = struct.Struct(">iI")  # L, then S in the top byte of a word with H below it
_LENGTH_BYTES = 4
_PREFIX_BYTES = PREFIX.size


class Serialization(IntEnum):
    """The encoding of a header. Apache's servers respond in JSON, whatever the request used. Its clients read both."""

    JSON = 0
    ROCKETMQ = 1


class Frame(NamedTuple):
    """One frame, split into header and body, not decoded."""

    serialization: int
    header: bytes
    body: bytes


def _split(data: bytes, frames: list[Frame], frame_bytes_max: int, header_bytes_max: int) -> tuple[int, int]:
    """Append the complete frames of `data` to `frames`.

    Return where the last complete frame ends, and how many bytes the next frame needs from there before another call can make
    progress. That number is 0 when the bytes after the last frame cannot be a frame.
    """
    start, end = 0, len(data)
    length_max = frame_bytes_max - _LENGTH_BYTES
    unpack, new = PREFIX.unpack_from, tuple.__new__  # makes a named tuple in half the time of its constructor
    while end - start >= _PREFIX_BYTES:
        length, mark = unpack(data, start)
        serialization, header_bytes = 0, mark
        if mark > header_bytes_max:  # S is not 0, or the header is too large
            serialization, header_bytes = mark >> 24, mark & 0xFFFFFF
        if not header_bytes + _LENGTH_BYTES <= length <= length_max or serialization > 1 or header_bytes > header_bytes_max:
            return start, 0
        header_at = start + _PREFIX_BYTES
        stop = start + _LENGTH_BYTES + length
        if stop > end:
            return start, stop - start
        body_at = header_at + header_bytes
        frames.append(new(Frame, (serialization, data[header_at:body_at], data[body_at:stop])))
        start = stop
    return start, _PREFIX_BYTES


split = twin("frame", _split)


class FrameSplitter:
    """Splits a byte stream into frames.

    A malformed frame raises MalformedFrameError, whose `frames` are the frames before it in the same piece. After that the
    start of the next frame is unknown, so every later `feed` raises the error again.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, header_bytes_max: int = HEADER_BYTES_MAX) -> None:
        assert header_bytes_max < 1 << 24, "H has 24 bits"
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = header_bytes_max
        self.pending = bytearray()  # the start of one unfinished frame
        self._wanted = PREFIX.size  # pending bytes needed before `split` can make progress
        self._broken: MalformedFrameError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Add bytes from the stream, and return the frames that are complete now."""
        if self._broken is not None:
            raise MalformedFrameError(str(self._broken), [])
        if self.pending:
            if len(self.pending) + len(data) < self._wanted:
                self.pending += data
                return []
            data = b"".join((self.pending, data))
            self.pending.clear()
        elif not isinstance(data, bytes):
            data = bytes(data)
        frames: list[Frame] = []
        consumed, self._wanted = split(data, frames, self._frame_bytes_max, self._header_bytes_max)
        if consumed < len(data):
            if not self._wanted:
                length, mark = PREFIX.unpack_from(data, consumed)
                self._break(length, mark, frames)
            self.pending += data[consumed:]
        return frames

    def _break(self, length: int, mark: int, frames: list[Frame]) -> None:
        try:
            self._refuse(length, mark & 0xFFFFFF, mark >> 24, frames)
        except MalformedFrameError as error:
            self._broken = error
            raise

    def _refuse(self, length: int, header_bytes: int, serialization: int, frames: list[Frame]) -> None:
        """Raise an error that says what is wrong with a frame."""
        if length < _LENGTH_BYTES:
            raise MalformedFrameError(f"A frame says it has {length} bytes, but the length of its header alone takes 4.", frames)
        if length + _LENGTH_BYTES > self._frame_bytes_max:
            raise MalformedFrameError(
                f"A frame of {length + _LENGTH_BYTES} bytes is larger than the {self._frame_bytes_max} allowed.", frames
            )
        if serialization > Serialization.ROCKETMQ:
            raise MalformedFrameError(f"A header's serialization is {serialization}. It must be 0 (JSON) or 1 (binary).", frames)
        if header_bytes > length - _LENGTH_BYTES:
            raise MalformedFrameError(f"A header of {header_bytes} bytes does not fit in a frame of {length} bytes.", frames)
        if header_bytes > self._header_bytes_max:
            raise MalformedFrameError(
                f"A header of {header_bytes} bytes is larger than the {self._header_bytes_max} allowed.", frames
            )


class MalformedFrameError(FrameError):
    """The stream has a malformed frame. `frames` are the valid frames before it."""

    def __init__(self, sentence: str, frames: list[Frame]) -> None:
        super().__init__(sentence)
        self.frames = frames


def join_frame(serialization: int, header: bytes, body: bytes | bytearray | memoryview = b"") -> bytes:
    """Return the bytes of one frame."""
    length = _LENGTH_BYTES + len(header) + len(body)
    if length + _LENGTH_BYTES > FRAME_BYTES_MAX:
        raise FrameError(f"A frame of {length + _LENGTH_BYTES} bytes is larger than the {FRAME_BYTES_MAX} allowed.")
    return b"".join((PREFIX.pack(length, serialization << 24 | len(header)), header, body))


def frame_start(serialization: int, header: bytes, body_bytes: int) -> bytes:
    """Return the bytes of one frame up to its body, which the caller writes after them."""
    length = _LENGTH_BYTES + len(header) + body_bytes
    if length + _LENGTH_BYTES > FRAME_BYTES_MAX:
        raise FrameError(f"A frame of {length + _LENGTH_BYTES} bytes is larger than the {FRAME_BYTES_MAX} allowed.")
    return PREFIX.pack(length, serialization << 24 | len(header)) + header

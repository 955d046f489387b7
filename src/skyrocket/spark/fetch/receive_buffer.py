"""What a socket gave, in one growing buffer, and where in it the answers lie.

Answers are not copied out: records are decoded where they were received, some thousand at once, with the headers of their answers
between them. When they are, `forget` makes room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from skyrocket.columnar.ranges import Bytes
from skyrocket.protocol.command import decode_command
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import PREFIX, Frame, Serialization
from skyrocket.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from skyrocket.spark.fetch.fast_path import ordinary
from skyrocket.spark.fetch.pull_window import Ask

RECEIVE_BYTES_MIN: Final = 256 * 1024  # room for each time
FIRST_BYTES: Final = 8 * 1024 * 1024  # some thousand messages of 1 KiB; what is not used costs nothing
SPARE_BYTES_MAX: Final = 32 * 1024 * 1024  # one that grew larger is not kept
SPARE_MAX: Final = 2  # kept for the next tasks: memory that was touched before costs far less than new
_LENGTH_BYTES: Final = 4


class Answer(NamedTuple):
    """To a pull: what its header says, and the place of its body."""

    number: int
    code: int
    next_offset: int | None  # None: it does not say
    suggested: int  # which of the brokers of this name should be asked next
    max_offset: int
    remark: str
    start: int
    end: int


class _Fields(msgspec.Struct, gc=False):
    next_offset: int | None = msgspec.field(name="nextBeginOffset", default=None)
    suggested: int = msgspec.field(name="suggestWhichBrokerId", default=0)
    max_offset: int = msgspec.field(name="maxOffset", default=0)


class _Header(msgspec.Struct, gc=False):
    """What counts of a JSON header: `decode_command` would make a dict of everything, at three times the cost."""

    code: int
    opaque: int
    fields: _Fields | None = msgspec.field(name="extFields", default=None)
    remark: str | None = None


_header = msgspec.json.Decoder(_Header, strict=False)  # numbers are written as text
_NO_FIELDS: Final = _Fields()


def _read_header(serialization: int, header: memoryview) -> _Header:
    try:
        if serialization == Serialization.JSON:
            return _header.decode(header)
        command = decode_command(Frame(serialization, bytes(header), b""))
        return _Header(command.code, command.opaque, msgspec.convert(command.fields, _Fields, strict=False), command.remark)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(f"the header of an answer cannot be read: {error}") from error


_spare: deque[bytearray] = deque(maxlen=SPARE_MAX)


class Intake:
    """Places are those in `data`, and hold until `forget`."""

    def __init__(self) -> None:
        self._hold(_spare.pop() if _spare else bytearray(FIRST_BYTES))
        self.filled = 0
        self._parsed = 0

    def receive(self, receive_into: Callable[[memoryview], int]) -> None:
        """Once. ConnectionError when the peer has closed."""
        if len(self.data) - self.filled < RECEIVE_BYTES_MIN:
            self._grow()
        count = receive_into(self.view[self.filled :])
        if not count:
            raise ConnectionError("it closed the connection")
        self.filled += count

    def _grow(self) -> None:
        """Doubled, so that what is kept is copied seldom. `range_reader` decodes before it is too much."""
        larger = bytearray(2 * len(self.data))
        larger[: self.filled] = self.view[: self.filled]
        self._hold(larger)

    def close(self) -> None:
        """Nothing of it is needed any more."""
        memory = self._memory
        self._hold(bytearray())
        if len(memory) <= SPARE_BYTES_MAX:
            _spare.append(memory)

    def _hold(self, memory: bytearray) -> None:
        self._memory = memory
        self.view = memoryview(memory)
        self.data: Bytes = np.frombuffer(memory, np.uint8)  # the same, for arithmetic

    def ordinary(self, broker_id: int, asks: Sequence[Ask]) -> tuple[int, bytes]:
        """How many of these pulls have come as they should, and where their records start."""
        taken, self._parsed, starts = ordinary(self.view, self._parsed, self.filled, broker_id, asks)
        return taken, starts

    def answers(self) -> list[Answer]:
        """The others that are complete by now."""
        found: list[Answer] = []
        data, at, filled = self.view, self._parsed, self.filled
        while filled - at >= PREFIX.size:
            length, mark = PREFIX.unpack_from(data, at)
            serialization, header_bytes = mark >> 24, mark & 0xFFFFFF
            if (
                not header_bytes + _LENGTH_BYTES <= length < FRAME_BYTES_MAX
                or header_bytes > HEADER_BYTES_MAX
                or serialization > 1
            ):
                raise FrameError(f"An answer says that it has {length} bytes, {header_bytes} of them in its header: it is none.")
            end = at + _LENGTH_BYTES + length
            if end > filled:
                break
            body = at + PREFIX.size + header_bytes
            header = _read_header(serialization, data[at + PREFIX.size : body])
            fields = header.fields or _NO_FIELDS
            numbers = (header.opaque, header.code, fields.next_offset, fields.suggested, fields.max_offset)
            found.append(Answer(*numbers, header.remark or "", body, end))
            at = end
        self._parsed = at
        return found

    def forget(self, kept: dict[int, Answer]) -> None:
        """All that was parsed but these answers, which are moved, and get their new places."""
        at = 0
        for number, answer in sorted(kept.items(), key=lambda item: item[1].start):
            size = answer.end - answer.start
            self.view[at : at + size] = self.view[answer.start : answer.end]
            kept[number] = answer._replace(start=at, end=at + size)
            at += size
        rest = self.filled - self._parsed
        self.view[at : at + rest] = self.view[self._parsed : self.filled]
        self._parsed, self.filled = at, at + rest

    def clear(self) -> None:
        self._parsed = self.filled = 0

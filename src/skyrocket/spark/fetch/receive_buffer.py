"""The receive buffer of a connection: one growing block of memory, and the positions of the pull responses in it.

Responses are not copied. Records are decoded where they were received, some thousand at once, with response headers between them.
After that, `discard_parsed` makes room.
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
from skyrocket.spark.fetch.fast_path import take_expected
from skyrocket.spark.fetch.pull_window import PlannedPull

RECEIVE_BYTES_MIN: Final = 256 * 1024  # free space before each receive
FIRST_BYTES: Final = 8 * 1024 * 1024  # some thousand messages of 1 KiB; untouched pages cost nothing
SPARE_BYTES_MAX: Final = 32 * 1024 * 1024  # a larger buffer is not kept
SPARE_MAX: Final = 2  # buffers kept for the next tasks: memory that was touched before is far cheaper than new memory
_LENGTH_BYTES: Final = 4


class PullResponse(NamedTuple):
    """The header of a pull response, and the position of its body in the buffer."""

    number: int  # the request's opaque
    code: int
    next_offset: int | None  # None: the header has none
    suggested: int  # id of the broker (master or slave) to pull from next
    max_offset: int
    remark: str
    start: int
    end: int


class _Fields(msgspec.Struct, gc=False):
    next_offset: int | None = msgspec.field(name="nextBeginOffset", default=None)
    suggested: int = msgspec.field(name="suggestWhichBrokerId", default=0)
    max_offset: int = msgspec.field(name="maxOffset", default=0)


class _Header(msgspec.Struct, gc=False):
    """The needed fields of a JSON header. `decode_command` would build a dict of all fields, at three times the cost."""

    code: int
    opaque: int
    fields: _Fields | None = msgspec.field(name="extFields", default=None)
    remark: str | None = None


_header = msgspec.json.Decoder(_Header, strict=False)  # the protocol writes numbers as text
_NO_FIELDS: Final = _Fields()


def _read_header(serialization: int, header: memoryview) -> _Header:
    try:
        if serialization == Serialization.JSON:
            return _header.decode(header)
        command = decode_command(Frame(serialization, bytes(header), b""))
        return _Header(command.code, command.opaque, msgspec.convert(command.fields, _Fields, strict=False), command.remark)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(f"The header of a response cannot be decoded: {error}") from error


_spare: deque[bytearray] = deque(maxlen=SPARE_MAX)


class ReceiveBuffer:
    """All positions are indexes into `data`. They are valid until `discard_parsed`."""

    def __init__(self) -> None:
        self._use(_spare.pop() if _spare else bytearray(FIRST_BYTES))
        self.filled = 0
        self._parsed = 0

    def receive(self, receive_into: Callable[[memoryview], int]) -> None:
        """Receive once. Raise ConnectionError if the broker has closed the connection."""
        if len(self.data) - self.filled < RECEIVE_BYTES_MIN:
            self._grow()
        count = receive_into(self.view[self.filled :])
        if not count:
            raise ConnectionError("the broker closed the connection")
        self.filled += count

    def _grow(self) -> None:
        """Double the buffer, so that its content is rarely copied. `range_reader` decodes before it grows too large."""
        larger = bytearray(2 * len(self.data))
        larger[: self.filled] = self.view[: self.filled]
        self._use(larger)

    def close(self) -> None:
        """Release the memory, or keep it for the next buffer."""
        memory = self._memory
        self._use(bytearray())
        if len(memory) <= SPARE_BYTES_MAX:
            _spare.append(memory)

    def _use(self, memory: bytearray) -> None:
        self._memory = memory
        self.view = memoryview(memory)
        self.data: Bytes = np.frombuffer(memory, np.uint8)  # the same memory as an array

    def take_expected(self, broker_id: int, pulls: Sequence[PlannedPull]) -> tuple[int, bytes]:
        """Take expected responses to these pulls. Return how many there are, and the packed starts of their records."""
        taken, self._parsed, starts = take_expected(self.view, self._parsed, self.filled, broker_id, pulls)
        return taken, starts

    def responses(self) -> list[PullResponse]:
        """Parse all other complete responses."""
        found: list[PullResponse] = []
        data, at, filled = self.view, self._parsed, self.filled
        while filled - at >= PREFIX.size:
            length, mark = PREFIX.unpack_from(data, at)
            serialization, header_bytes = mark >> 24, mark & 0xFFFFFF
            if (
                not header_bytes + _LENGTH_BYTES <= length < FRAME_BYTES_MAX
                or header_bytes > HEADER_BYTES_MAX
                or serialization > 1
            ):
                raise FrameError(
                    f"The broker sent a frame of {length} bytes with a header of {header_bytes} bytes: this is no response."
                )
            end = at + _LENGTH_BYTES + length
            if end > filled:
                break
            body = at + PREFIX.size + header_bytes
            header = _read_header(serialization, data[at + PREFIX.size : body])
            fields = header.fields or _NO_FIELDS
            numbers = (header.opaque, header.code, fields.next_offset, fields.suggested, fields.max_offset)
            found.append(PullResponse(*numbers, header.remark or "", body, end))
            at = end
        self._parsed = at
        return found

    def discard_parsed(self, kept: dict[int, PullResponse]) -> None:
        """Discard everything that was parsed, except the responses in `kept`. They move, and `kept` gets their new positions."""
        at = 0
        for number, response in sorted(kept.items(), key=lambda item: item[1].start):
            size = response.end - response.start
            self.view[at : at + size] = self.view[response.start : response.end]
            kept[number] = response._replace(start=at, end=at + size)
            at += size
        rest = self.filled - self._parsed
        self.view[at : at + rest] = self.view[self._parsed : self.filled]
        self._parsed, self.filled = at, at + rest

    def clear(self) -> None:
        self._parsed = self.filled = 0

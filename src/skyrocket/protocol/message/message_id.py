"""Message ids. There are two kinds, both hexadecimal text of 32 characters (IPv4) or 56 (IPv6).

The producer makes a unique id. It is a property of the message, and the id that tools show:

     0            4 or 16      +2           +4           +4           +2
     +------------+------------+------------+------------+------------+
     | address    | process id | salt       | ms in the  | counter    |
     |            |            |            | month      |            |
     +------------+------------+------------+------------+------------+
      IPv4 or v6   low 16 bits  uint32       uint32       uint16

The broker makes an offset id, which locates the record:

     0            8 or 20      +8
     +------------+------------+
     | store host | physical   |
     |            | offset     |
     +------------+------------+
      as in `hosts`  int64

A unique id has only the milliseconds since the start of the month, in the producer's time zone. To get a date from it, a reader
needs the current time and that zone. Functions here take the zone as its offset from UTC.
"""

from __future__ import annotations

import binascii
import ipaddress
import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.errors import IdError
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES

ID_SEPARATOR: Final = ","
"""Separates the ids of a batch's messages in a field for one id."""

_UNIQUE_TAIL = struct.Struct(">HIIH")  # process id, salt, ms in the month, counter
_OFFSET = struct.Struct(">q")
_ADDRESS_BYTES: Final = (4, 16)
_UNIQUE_BYTES: Final = tuple(address + _UNIQUE_TAIL.size for address in _ADDRESS_BYTES)
_OFFSET_ID_BYTES: Final = (V4_BYTES + _OFFSET.size, V6_BYTES + _OFFSET.size)

_CLOCK_SLIP_MS_MAX = 1_000_000  # tolerated step of the clock back into the month before
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def month_bounds_ms(now_ms: int, utc_offset_ms: int = 0) -> tuple[int, int]:
    """Return when the month of `now_ms` and the next month start, in a zone that is `utc_offset_ms` ahead of UTC."""
    try:
        local = _EPOCH + timedelta(milliseconds=now_ms + utc_offset_ms)
        start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (start + timedelta(days=31)).replace(day=1)
    except (OverflowError, ValueError) as error:
        raise IdError(f"{now_ms} ms since 1970 is not a valid date: {error}.") from error
    return (start - _EPOCH) // _MILLISECOND - utc_offset_ms, (following - _EPOCH) // _MILLISECOND - utc_offset_ms


def _format_ids(before: str, first: int, count: int) -> list[str]:
    """Return `count` ids: `before`, followed by 16 bits of a counter from `first` on, as 0009, 000A, …"""
    return ["%s%04X" % (before, number & 0xFFFF) for number in range(first, first + count)]  # noqa: UP031 — half the time


format_ids = twin("message_id", _format_ids)


class UniqueIdFactory:
    """Makes the unique ids of one producer. The caller passes the time. Not thread-safe.

    `salt` tells producers in one process apart (in Java, it is the class loader's hash). An id has the low 16 bits of
    `process_id`. Up to 65,536 ids per millisecond are distinct.
    """

    def __init__(self, address: bytes, process_id: int, salt: int, *, utc_offset_ms: int = 0) -> None:
        if len(address) not in _ADDRESS_BYTES:
            raise IdError(f"An address of {len(address)} bytes does not fit in a message id. It must have 4 or 16.")
        fixed = address + struct.pack(">HI", process_id & 0xFFFF, salt & 0xFFFF_FFFF)
        self._prefix = fixed.hex().upper()
        self._utc_offset_ms = utc_offset_ms
        self._month_start_ms = 0
        self._next_month_ms: int | None = None
        self._counter = 0
        self._last_ms = -1
        self._prefix_with_time = ""  # the id without its counter, for the last millisecond

    def next(self, now_ms: int) -> str:
        """Return the next id."""
        if now_ms != self._last_ms:
            self._last_ms, self._prefix_with_time = now_ms, self._format_prefix(now_ms)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return "%s%04X" % (self._prefix_with_time, counter)  # noqa: UP031 — half the time of a format string

    def next_ids(self, now_ms: int, count: int) -> list[str]:
        """Return the next `count` ids, for messages that are sent together."""
        if now_ms != self._last_ms:
            self._last_ms, self._prefix_with_time = now_ms, self._format_prefix(now_ms)
        prefix_with_time, first = self._prefix_with_time, self._counter
        self._counter = (first + count) & 0xFFFF
        return format_ids(prefix_with_time, first, count)

    def _format_prefix(self, now_ms: int) -> str:
        if self._next_month_ms is None or now_ms >= self._next_month_ms:
            self._month_start_ms, self._next_month_ms = month_bounds_ms(now_ms, self._utc_offset_ms)
        in_month_ms = now_ms - self._month_start_ms
        if -_CLOCK_SLIP_MS_MAX < in_month_ms < 0:
            in_month_ms = 0
        return f"{self._prefix}{in_month_ms & 0xFFFF_FFFF:08X}"


class UniqueId(NamedTuple):
    """The parts of a unique id."""

    address: bytes
    process_id: int
    salt: int
    in_month_ms: int
    counter: int

    @property
    def address_text(self) -> str:
        return str(ipaddress.ip_address(self.address))

    def approximate_born_ms(self, now_ms: int, utc_offset_ms: int = 0) -> int:
        """Return when the id was made, provided that this was less than a month before `now_ms`."""
        start_ms, _ = month_bounds_ms(now_ms, utc_offset_ms)
        if start_ms + self.in_month_ms >= now_ms:
            start_ms, _ = month_bounds_ms(start_ms - 1, utc_offset_ms)
        return start_ms + self.in_month_ms


def parse_unique_id(text: str) -> UniqueId:
    """Parse a unique id. Raise IdError if the text is not one."""
    packed = _unhex(text, _UNIQUE_BYTES, "A unique id")
    address_bytes = len(packed) - _UNIQUE_TAIL.size
    return UniqueId(packed[:address_bytes], *_UNIQUE_TAIL.unpack_from(packed, address_bytes))


class OffsetId(NamedTuple):
    """The location of a record: its broker, as packed by `hosts`, and its offset in the broker's commit log."""

    host: bytes
    physical_offset: int


def encode_offset_id(host: bytes, physical_offset: int) -> str:
    """Return the offset id of a record."""
    return encode_offset_ids(host, (physical_offset,))


def encode_offset_ids(host: bytes, physical_offsets: Iterable[int]) -> str:
    """Return the offset ids of several records, joined as in the response to a batch send."""
    if len(host) not in (V4_BYTES, V6_BYTES):
        raise IdError(f"A host has {len(host)} bytes; it is {V4_BYTES} (IPv4) or {V6_BYTES} (IPv6).")
    prefix = host.hex().upper()
    ids: list[str] = []
    for offset in physical_offsets:
        if not 0 <= offset < 1 << 63:
            raise IdError(f"A physical offset of {offset} does not fit in a message id.")
        ids.append(f"{prefix}{offset:016X}")
    return ID_SEPARATOR.join(ids)


def decode_offset_id(text: str) -> OffsetId:
    """Parse an offset id. Raise IdError if the text is not one."""
    packed = _unhex(text, _OFFSET_ID_BYTES, "An offset id")
    host_bytes = len(packed) - _OFFSET.size
    (physical_offset,) = _OFFSET.unpack_from(packed, host_bytes)
    if physical_offset < 0:
        raise IdError(f"An offset id has the physical offset {physical_offset}: {text!r}.")
    return OffsetId(packed[:host_bytes], physical_offset)


def _unhex(text: str, lengths: tuple[int, ...], what: str) -> bytes:
    """Decode hexadecimal text of an allowed length. Letters may be upper or lower case, as in Java."""
    if len(text) not in (2 * length for length in lengths):
        shown = " or ".join(str(2 * length) for length in lengths)
        raise IdError(f"{what} has {shown} characters, not the {len(text)} of {text[:64]!r}.")
    try:
        return binascii.unhexlify(text)
    except ValueError as error:  # binascii.Error is a ValueError
        raise IdError(f"{what} is hexadecimal, unlike {text!r}.") from error

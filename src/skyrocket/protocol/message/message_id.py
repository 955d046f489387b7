"""Message ids. There are two kinds, both hexadecimal text of 32 characters (IPv4) or 56 (IPv6).

A unique id is made by the producer, travels as a property, and is what people see:

     0            4 or 16      +2           +4           +4           +2
     +------------+------------+------------+------------+------------+
     | address    | process id | salt       | ms in the  | counter    |
     |            |            |            | month      |            |
     +------------+------------+------------+------------+------------+
      IPv4 or v6   low 16 bits  uint32       uint32       uint16

An offset id is made by the broker, and says where the record lies:

     0            8 or 20      +8
     +------------+------------+
     | store host | physical   |
     |            | offset     |
     +------------+------------+
      as in `hosts`  int64

A unique id has the time since the start of the month, so that it can only be read beside a clock, and to within the time zone:
Java takes the month of its own zone. Here both sides are given the zone as its distance from UTC.
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
"""Between the ids of a batch's messages, where a field of one id has to name them all."""

_UNIQUE_TAIL = struct.Struct(">HIIH")  # process id, salt, ms in the month, counter
_OFFSET = struct.Struct(">q")
_ADDRESS_BYTES: Final = (4, 16)
_UNIQUE_BYTES: Final = tuple(address + _UNIQUE_TAIL.size for address in _ADDRESS_BYTES)
_OFFSET_ID_BYTES: Final = (V4_BYTES + _OFFSET.size, V6_BYTES + _OFFSET.size)

_CLOCK_SLIP_MS_MAX = 1_000_000  # a clock this far before the month that was current a moment ago was only set back a little
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def month_bounds_ms(now_ms: int, utc_offset_ms: int = 0) -> tuple[int, int]:
    """When the month of `now_ms` starts and when the next one does, in a zone that is `utc_offset_ms` ahead of UTC."""
    try:
        local = _EPOCH + timedelta(milliseconds=now_ms + utc_offset_ms)
        start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (start + timedelta(days=31)).replace(day=1)
    except (OverflowError, ValueError) as error:
        raise IdError(f"{now_ms} ms is not a time in any month: {error}.") from error
    return (start - _EPOCH) // _MILLISECOND - utc_offset_ms, (following - _EPOCH) // _MILLISECOND - utc_offset_ms


def _numbered(before: str, first: int, count: int) -> list[str]:
    """So many, with the low bits of a number behind them: 0009, 000A, …"""
    return ["%s%04X" % (before, number & 0xFFFF) for number in range(first, first + count)]  # noqa: UP031 — half the time


numbered = twin("message_id", _numbered)


class UniqueIdFactory:
    """Makes one producer's unique ids. The caller owns the clock, and lets one thread in at a time.

    `salt` separates producers in one process (Java: the class loader's hash); only the low bits of `process_id` are used.
    65,536 ids a millisecond are distinct.
    """

    def __init__(self, address: bytes, process_id: int, salt: int, *, utc_offset_ms: int = 0) -> None:
        if len(address) not in _ADDRESS_BYTES:
            raise IdError(f"An address of {len(address)} bytes is not one that a message id can have: it has 4 or 16.")
        fixed = address + struct.pack(">HI", process_id & 0xFFFF, salt & 0xFFFF_FFFF)
        self._prefix = fixed.hex().upper()
        self._utc_offset_ms = utc_offset_ms
        self._month_start_ms = 0
        self._next_month_ms: int | None = None
        self._counter = 0
        self._last_ms = -1
        self._until_ms = ""  # all of an id but its counter, as of the last millisecond

    def next(self, now_ms: int) -> str:
        if now_ms != self._last_ms:
            self._last_ms, self._until_ms = now_ms, self._at(now_ms)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return "%s%04X" % (self._until_ms, counter)  # noqa: UP031 — half the time of a format string

    def several(self, now_ms: int, count: int) -> list[str]:
        """The next ones, for messages that are sent together."""
        if now_ms != self._last_ms:
            self._last_ms, self._until_ms = now_ms, self._at(now_ms)
        until_ms, first = self._until_ms, self._counter
        self._counter = (first + count) & 0xFFFF
        return numbered(until_ms, first, count)

    def _at(self, now_ms: int) -> str:
        if self._next_month_ms is None or now_ms >= self._next_month_ms:
            self._month_start_ms, self._next_month_ms = month_bounds_ms(now_ms, self._utc_offset_ms)
        in_month_ms = now_ms - self._month_start_ms
        if -_CLOCK_SLIP_MS_MAX < in_month_ms < 0:
            in_month_ms = 0
        return f"{self._prefix}{in_month_ms & 0xFFFF_FFFF:08X}"


class UniqueId(NamedTuple):
    """What a unique id says."""

    address: bytes
    process_id: int
    salt: int
    in_month_ms: int
    counter: int

    @property
    def address_text(self) -> str:
        return str(ipaddress.ip_address(self.address))

    def nearly_born_ms(self, now_ms: int, utc_offset_ms: int = 0) -> int:
        """When it was made, if that was less than a month before `now_ms`."""
        start_ms, _ = month_bounds_ms(now_ms, utc_offset_ms)
        if start_ms + self.in_month_ms >= now_ms:
            start_ms, _ = month_bounds_ms(start_ms - 1, utc_offset_ms)
        return start_ms + self.in_month_ms


def parse_unique_id(text: str) -> UniqueId:
    packed = _unhex(text, _UNIQUE_BYTES, "A unique id")
    address_bytes = len(packed) - _UNIQUE_TAIL.size
    return UniqueId(packed[:address_bytes], *_UNIQUE_TAIL.unpack_from(packed, address_bytes))


class OffsetId(NamedTuple):
    """Where a record lies: at which broker (as packed by `hosts`), and how far into its log."""

    host: bytes
    physical_offset: int


def encode_offset_id(host: bytes, physical_offset: int) -> str:
    return encode_offset_ids(host, (physical_offset,))


def encode_offset_ids(host: bytes, physical_offsets: Iterable[int]) -> str:
    """The ids of several records, as the answer to a batch send names them."""
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
    packed = _unhex(text, _OFFSET_ID_BYTES, "An offset id")
    host_bytes = len(packed) - _OFFSET.size
    (physical_offset,) = _OFFSET.unpack_from(packed, host_bytes)
    if physical_offset < 0:
        raise IdError(f"An offset id has the physical offset {physical_offset}: {text!r}.")
    return OffsetId(packed[:host_bytes], physical_offset)


def _unhex(text: str, lengths: tuple[int, ...], what: str) -> bytes:
    """Either case of letters, as Java reads them."""
    if len(text) not in (2 * length for length in lengths):
        shown = " or ".join(str(2 * length) for length in lengths)
        raise IdError(f"{what} has {shown} characters, not the {len(text)} of {text[:64]!r}.")
    try:
        return binascii.unhexlify(text)
    except ValueError as error:  # binascii.Error among them
        raise IdError(f"{what} is hexadecimal, unlike {text!r}.") from error

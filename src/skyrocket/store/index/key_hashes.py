"""Java's String.hashCode of many short strings at once. The index needs two or three for each message, and a loop is slow.

Java's hash is a polynomial in 31, modulo 2^32. One big integer holds a lane of 32 bytes for each string. The string is
right-aligned in its lane, with zeros before it. Each step combines neighbouring numbers, in all lanes at once, until a lane is
one number:

    bytes of a lane   c0        c1        c2        c3        …   c31
                      +-------------------+-------------------+---
    · 31 and add      | c0·31 + c1        | c2·31 + c3        |        16 numbers of 16 bits
                      +-------------------+-------------------+---
    · 31² and add     | …                                     |         8 numbers of 32 bits
                      +---------------------------------------+---
    and so on with 31⁴, 31⁸ and 31¹⁶. Only 32 bits of each number are kept, so that it never overflows into its neighbour.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from skyrocket.protocol.message.tags import java_hash

_LANE_BYTES = 32  # the length of unique keys from clients on IPv4
_LANES_MAX = 128
_LANE = struct.Struct(f">{_LANE_BYTES - 4}xI")
_POWERS: Final = tuple(pow(31, length, 2**32) for length in range(_LANE_BYTES + 1))
_INT32_SPAN = 2**32


def _every(bits: int, of_bits: int) -> int:
    """Return a mask of the lowest `bits` of every `of_bits`, over all lanes."""
    return int.from_bytes((2**bits - 1).to_bytes(of_bits // 8) * (_LANES_MAX * _LANE_BYTES * 8 // of_bits))


# (bits of a number, factor for the left number of a pair, mask for what is kept)
_STEPS: Final = tuple((bits, _POWERS[bits // 8], _every(min(bits, 32), 2 * bits)) for bits in (8, 16, 32, 64, 128))


def hash_keys(topic: str, keys: Sequence[str]) -> list[int]:
    """Return the index hash of `topic#key` for each key: the absolute value of Java's hash, or 0 for Integer.MIN_VALUE."""
    hashes: list[int] = []
    starts = _starts(topic)
    for first in range(0, len(keys), _LANES_MAX):
        some = keys[first : first + _LANES_MAX]
        text = "".join([key.rjust(_LANE_BYTES, "\0") for key in some])
        if len(text) == _LANE_BYTES * len(some) and text.isascii():
            lanes = _LANE.iter_unpack(_lane_hashes(text.encode()))
            hashes += [(starts[len(key)] + hashed) % _INT32_SPAN for key, (hashed,) in zip(some, lanes, strict=True)]
        else:  # a key is longer than a lane, or not ASCII
            hashes += [java_hash(f"{topic}#{key}") % _INT32_SPAN for key in some]
    return [hashed if hashed < 2**31 else (_INT32_SPAN - hashed) % 2**31 for hashed in hashes]


@lru_cache(maxsize=1024)
def _starts(topic: str) -> tuple[int, ...]:
    """Return what `topic#` adds to the hash of a key, indexed by the key's length."""
    hashed = java_hash(f"{topic}#")
    return tuple(hashed * power % _INT32_SPAN for power in _POWERS)


def _lane_hashes(texts: bytes) -> bytes:
    """Return the hash of each lane, in the lane's last four bytes."""
    lanes = int.from_bytes(texts)
    for bits, power, kept in _STEPS:
        lanes = (lanes >> bits & kept) * power + (lanes & kept)
    return lanes.to_bytes(len(texts))

"""What properties say beside their unique key: nearly all messages of a producer say the same, so it is found out once.

UNIQ_KEY␁7F0000018B4A18B4AAC20000␂TAGS␁red␂__transactionId__␁7F0000018B4A18B4AAC20000␂…
UNIQ_KEY␁␀␂TAGS␁red␂__transactionId__␁␀␂…                                                  the shape of those
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from skyrocket.protocol.properties import (
    KEYS,
    NAME_END,
    TIMER_DELIVER_MS,
    TRANSACTION_ID,
    UNIQUE_KEY,
    VALUE_END,
    decode_properties,
)

SHAPES_MAX: Final = 1024
SHAPE_BYTES_MAX: Final = 1024
MARK: Final = b"\0"  # where the key was
_MARK_TEXT = MARK.decode()
_KEY_BYTES_MIN = 16  # a shorter one may be part of other words
_UNIQUE = f"{UNIQUE_KEY}{NAME_END}".encode()
_VALUE_END = VALUE_END.encode()

_OF_ONE_MESSAGE = frozenset({KEYS, TIMER_DELIVER_MS})  # others have other ones

T = TypeVar("T")


class PropertyShapes(Generic[T]):
    def __init__(self, read: Callable[[dict[str, str]], T]) -> None:
        """`read` finds out what is wanted of properties; where they have the mark instead of a key, so has what it returns."""
        self._read = read
        self._known: dict[bytes, T] = {}

    def of(self, properties: bytes) -> tuple[T, bytes | None]:
        """What was found out, and the key whose place is marked in it; None when nothing is."""
        key = properties.partition(_UNIQUE)[2].partition(_VALUE_END)[0]
        if len(key) >= _KEY_BYTES_MIN and key.isalnum() and MARK not in properties:
            shape = properties.replace(key, MARK)
            found = self._known.get(shape)
            if found is not None or (found := self._look(shape)) is not None:
                return found, key
        return self._read(decode_properties(properties)), None

    def _look(self, shape: bytes) -> T | None:
        """None when the key stands where it means something else."""
        properties = decode_properties(shape)
        places = sum(properties.get(name) == _MARK_TEXT for name in (UNIQUE_KEY, TRANSACTION_ID))
        is_clear = properties.get(UNIQUE_KEY) == _MARK_TEXT and shape.count(MARK) == places
        if not is_clear:
            return None
        found = self._read(properties)
        if _OF_ONE_MESSAGE.isdisjoint(properties) and len(shape) <= SHAPE_BYTES_MAX:
            if len(self._known) >= SHAPES_MAX:
                self._known.clear()
            self._known[shape] = found
        return found


def with_key(keys: tuple[str, ...], key: bytes | None) -> tuple[str, ...]:
    """What the index finds a message by, the unique key first."""
    return keys if key is None else (key.decode(), *keys[1:])

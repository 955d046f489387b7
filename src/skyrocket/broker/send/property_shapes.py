"""What properties say beside their unique key: nearly all messages of a producer say the same, so it is found out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from skyrocket.protocol.message.properties import KEYS, TIMER_DELIVER_MS, TRANSACTION_ID, UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.unique_key import MARK

SHAPES_MAX: Final = 1024
SHAPE_BYTES_MAX: Final = 1024
_MARK_TEXT = MARK.decode()

_OF_ONE_MESSAGE = frozenset({KEYS, TIMER_DELIVER_MS})  # others have other ones

T = TypeVar("T")


class PropertyShapes(Generic[T]):
    def __init__(self, read: Callable[[dict[str, str]], T]) -> None:
        """`read` finds out what is wanted of properties; where they have the mark instead of a key, so has what it returns."""
        self._read = read
        self.known: dict[bytes, T] = {}  # by shape: most are found here, all by `of`

    def of(self, shape: bytes, key: bytes | None) -> tuple[T, bytes | None]:
        """What properties of this shape say, and the key whose place is marked in that; None when nothing is."""
        if key is None:
            return self._read(decode_properties(shape)), None
        found = self.known.get(shape)
        if found is not None or (found := self._look(shape)) is not None:
            return found, key
        return self._read(decode_properties(shape.replace(MARK, key))), None

    def _look(self, shape: bytes) -> T | None:
        """None when the key stands where it means something else."""
        properties = decode_properties(shape)
        places = sum(properties.get(name) == _MARK_TEXT for name in (UNIQUE_KEY, TRANSACTION_ID))
        is_clear = properties.get(UNIQUE_KEY) == _MARK_TEXT and shape.count(MARK) == places
        if not is_clear:
            return None
        found = self._read(properties)
        if _OF_ONE_MESSAGE.isdisjoint(properties) and len(shape) <= SHAPE_BYTES_MAX:
            if len(self.known) >= SHAPES_MAX:
                self.known.clear()
            self.known[shape] = found
        return found

"""A cache of what properties mean, by their shape: their text with the unique key replaced by a mark.

Nearly all messages of a producer have the same properties except for the unique key, so their meaning is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from skyrocket.protocol.message.properties import KEYS, TIMER_DELIVER_MS, TRANSACTION_ID, UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.unique_key import MARK

SHAPES_MAX: Final = 1024
SHAPE_BYTES_MAX: Final = 1024
_MARK_TEXT = MARK.decode()

_DIFFERENT_EACH_TIME = frozenset({KEYS, TIMER_DELIVER_MS})  # shapes with these are not worth caching

T = TypeVar("T")


class PropertyShapes(Generic[T]):
    def __init__(self, interpret: Callable[[dict[str, str]], T]) -> None:
        """`interpret` computes what properties mean. Where the unique key is marked in them, its result has the mark too."""
        self._interpret = interpret
        self.known: dict[bytes, T] = {}  # by shape; hot paths look here before they call `of`

    def of(self, shape: bytes, key: bytes | None) -> tuple[T, bytes | None]:
        """Return what properties of this shape mean, and the key to put in place of its marks; None when it has no marks."""
        if key is None:
            return self._interpret(decode_properties(shape)), None
        found = self.known.get(shape)
        if found is not None or (found := self._interpret_marked(shape)) is not None:
            return found, key
        return self._interpret(decode_properties(shape.replace(MARK, key))), None

    def _interpret_marked(self, shape: bytes) -> T | None:
        """Interpret a shape with marks, and cache the result. Return None when the key also stands for something else."""
        properties = decode_properties(shape)
        places = sum(properties.get(name) == _MARK_TEXT for name in (UNIQUE_KEY, TRANSACTION_ID))
        is_clear = properties.get(UNIQUE_KEY) == _MARK_TEXT and shape.count(MARK) == places
        if not is_clear:
            return None
        found = self._interpret(properties)
        if _DIFFERENT_EACH_TIME.isdisjoint(properties) and len(shape) <= SHAPE_BYTES_MAX:
            if len(self.known) >= SHAPES_MAX:
                self.known.clear()
            self.known[shape] = found
        return found

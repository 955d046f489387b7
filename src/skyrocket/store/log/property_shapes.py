"""What the properties of records in the log mean to queues and index, remembered by their shape.

Nearly all messages of a producer have the same properties except for the unique key. Their shape is their text with a mark in
place of that key. So whoever reads many records asks once for what a shape means.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocket.protocol.message.properties import KEYS, TAGS, decode_properties
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.store.message import index_keys

SHAPES_MAX: Final = 1024
SHAPE_BYTES_MAX: Final = 1024
_MARK: Final = MARK.decode()


class ShapeFacts(NamedTuple):
    """What properties of one shape mean to queue and index."""

    tags_code: int
    keys: tuple[str, ...]  # without the key that the mark stands for
    marks_key: bool  # that key comes first


class ShapeCache:
    def __init__(self) -> None:
        self.known: dict[bytes, ShapeFacts] = {}  # hot paths look here before they call `look_up`

    def look_up(self, shape: bytes) -> ShapeFacts | None:
        """Return what properties mean; None when the key also stands for something else."""
        properties = decode_properties(shape)
        keys = index_keys(properties)
        marks_key = keys[:1] == (_MARK,)
        rest = keys[1:] if marks_key else keys
        if any(_MARK in key for key in rest) or _MARK in properties.get(TAGS, ""):
            return None
        facts = ShapeFacts(tags_code(properties.get(TAGS)), rest, marks_key)
        if KEYS not in properties and len(shape) <= SHAPE_BYTES_MAX:  # keys differ from message to message
            if len(self.known) >= SHAPES_MAX:
                self.known.clear()
            self.known[shape] = facts
        return facts

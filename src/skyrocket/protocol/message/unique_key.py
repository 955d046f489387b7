"""Split a record's properties into the unique key and a shape: the properties with a marker in place of the key.

UNIQ_KEY␁7F0000018B4A18B4AAC20000␂TAGS␁red␂__transactionId__␁7F0000018B4A18B4AAC20000␂…
UNIQ_KEY␁␀␂TAGS␁red␂__transactionId__␁␀␂…                                                  their shape

Nearly all messages of a producer have the same shape, so callers decode properties once per shape and cache the result.
"""

from __future__ import annotations

from typing import Final

from skyrocket.protocol.message.properties import NAME_END, UNIQUE_KEY, VALUE_END

MARK: Final = b"\0"  # in place of the key
_KEY_BYTES_MIN = 16  # a shorter key may occur inside other text
_UNIQUE = f"{UNIQUE_KEY}{NAME_END}".encode()
_VALUE_END = VALUE_END.encode()


def shape_of(properties: bytes) -> tuple[bytes, bytes | None]:
    """Return the shape and the key. Return the properties themselves and None if they have no key that can be marked."""
    key = properties.partition(_UNIQUE)[2].partition(_VALUE_END)[0]
    if len(key) >= _KEY_BYTES_MIN and key.isalnum() and MARK not in properties:
        return properties.replace(key, MARK), key
    return properties, None

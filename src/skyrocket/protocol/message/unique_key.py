"""The unique key in a record's properties, and the shape of what stands around it.

UNIQ_KEY␁7F0000018B4A18B4AAC20000␂TAGS␁red␂__transactionId__␁7F0000018B4A18B4AAC20000␂…
UNIQ_KEY␁␀␂TAGS␁red␂__transactionId__␁␀␂…                                                  the shape of those

Nearly all messages of a producer have the same shape, so what it means has to be found out once.
"""

from __future__ import annotations

from typing import Final

from skyrocket.protocol.message.properties import NAME_END, UNIQUE_KEY, VALUE_END

MARK: Final = b"\0"  # where the key was
_KEY_BYTES_MIN = 16  # a shorter one may be part of other words
_UNIQUE = f"{UNIQUE_KEY}{NAME_END}".encode()
_VALUE_END = VALUE_END.encode()


def shape_of(properties: bytes) -> tuple[bytes, bytes | None]:
    """The shape, and the key whose places are marked in it; the properties themselves and None where none can be."""
    key = properties.partition(_UNIQUE)[2].partition(_VALUE_END)[0]
    if len(key) >= _KEY_BYTES_MIN and key.isalnum() and MARK not in properties:
        return properties.replace(key, MARK), key
    return properties, None

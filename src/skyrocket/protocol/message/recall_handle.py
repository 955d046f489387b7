"""The handle by which a timed message is taken back: five words in base64, which the broker gives with the answer to the send.

    v1 TOPIC BROKER TIME_MS UNIQUE_KEY

The time lies within the stretch of time (by default a second) at whose end Apache's broker delivers the message, and tells in
which slot of the timer wheel it waits.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from skyrocket.protocol.errors import ProtocolError

_VERSION = "v1"
_WORDS = 5


class RecallHandleError(ProtocolError):
    """What a client gave is not a handle that a broker made."""


class RecallHandle(NamedTuple):
    topic: str
    broker_name: str
    time_ms: int
    unique_key: str

    def words(self) -> bytes:
        return " ".join((_VERSION, self.topic, self.broker_name, str(self.time_ms), self.unique_key)).encode()

    def encode(self) -> str:
        return encode_words(self.words()).decode()


def encode_words(words: bytes) -> bytes:
    return base64.urlsafe_b64encode(words)


def decode_recall_handle(text: str) -> RecallHandle:
    """A time that is no number is -1, which is over: so Java reads it."""
    try:
        words = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)).decode().split(" ")
    except (binascii.Error, ValueError) as error:
        raise RecallHandleError(f"The recall handle cannot be read: {error}.") from error
    if len(words) < _WORDS or words[0] != _VERSION:
        raise RecallHandleError("The recall handle is not of a kind that is known here.")
    _, topic, broker_name, time_text, unique_key, *_ = words
    is_number = time_text.isascii() and time_text.isdigit() and len(time_text) < 19
    return RecallHandle(topic, broker_name, int(time_text) if is_number else -1, unique_key)

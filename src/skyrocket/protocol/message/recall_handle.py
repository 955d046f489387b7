"""The recall handle of a timed message: five words in base64. The broker returns it in the response to the send.

    v1 TOPIC BROKER TIME_MS UNIQUE_KEY

The time determines the slot of the timer wheel in which the message waits. Apache's broker delivers the message at the end of
that slot, which is a second long by default.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from skyrocket.protocol.errors import ProtocolError

_VERSION = "v1"
_WORDS = 5


class RecallHandleError(ProtocolError):
    """A text from a client is not a recall handle."""


class RecallHandle(NamedTuple):
    """The content of a recall handle."""

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
    """Decode a recall handle. A time that is not a number becomes -1, which is in the past, as in Java."""
    try:
        words = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)).decode().split(" ")
    except (binascii.Error, ValueError) as error:
        raise RecallHandleError(f"The recall handle cannot be read: {error}.") from error
    if len(words) < _WORDS or words[0] != _VERSION:
        raise RecallHandleError("The recall handle has an unknown version.")
    _, topic, broker_name, time_text, unique_key, *_ = words
    is_number = time_text.isascii() and time_text.isdigit() and len(time_text) < 19
    return RecallHandle(topic, broker_name, int(time_text) if is_number else -1, unique_key)

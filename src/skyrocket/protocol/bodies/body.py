"""The root of every typed body, and how its fields read.

A body type is a struct with Apache's class name; its attributes are ours (`queue_datas`), its wire names Apache's (`queueDatas`).
Defaults are Java's, so a body from an older peer, which lacks the newer fields, reads as it would there. Three habits:

- A name that says what the thing *is* (a topic, a group, a broker) is a plain `str`, empty when it was missing.
- What is null in a new Java object is `None`, and None is not written. What is not null there cannot be None here: Java would
  read what was not written as the default again.
- A Java set is a list here: the order on the wire survives reading and writing. A Java array is a tuple.

DataVersion: which state of a table a peer has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from skyrocket.protocol.header import Int32, Int64

__all__ = ["Body", "Int32", "Int64"]


class Body(Struct, kw_only=True, rename="camel"):
    """A JSON object with named fields."""

    key_aliases: ClassVar[Mapping[str, str]] = {}
    """Other names under which a peer may send a key, anywhere in this body: other name -> name."""


class DataVersion(Body):
    """Two versions are the same state when all three numbers are equal; Java's default timestamp is the time of creation."""

    state_version: Int64 = 0
    timestamp: Int64 = 0
    counter: Int64 = 0

    def next(self, state_version: int, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(state_version=state_version, timestamp=now_ms, counter=self.counter + 1)

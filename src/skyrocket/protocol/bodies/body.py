"""The base class of typed bodies, and rules for their fields.

A body type is a struct with Apache's class name, Python attribute names (`queue_datas`) and Apache's wire names (`queueDatas`).
Defaults are Java's, so that a body from an older peer, which lacks newer fields, decodes as in Java. Three rules:

- The name of a topic, a group or a broker is a plain `str`, empty if it is missing.
- A field that is null in a new Java object is `None` by default, and None is not written. A field that is not null there cannot
be
  None here, because Java would read the missing field as its default.
- A Java set is a list, which keeps the order on the wire. A Java array is a tuple.

`DataVersion` identifies the state of a table that a peer has seen.
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
    """Alternative names of keys anywhere in this body, which a peer may send: alternative name -> name."""


class DataVersion(Body):
    """The version of a table. Equal versions have three equal numbers. Java's default timestamp is the time of creation."""

    state_version: Int64 = 0
    timestamp: Int64 = 0
    counter: Int64 = 0

    def next(self, state_version: int, now_ms: int) -> DataVersion:
        """Return the version after one more change."""
        return DataVersion(state_version=state_version, timestamp=now_ms, counter=self.counter + 1)

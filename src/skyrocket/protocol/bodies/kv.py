"""Plain tables of text."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body


class KVTable(Body):
    table: dict[str, str] = field(default_factory=dict)


class KVConfigSerializeWrapper(Body):
    """The nameserver's key-value file: namespace -> key -> value."""

    config_table: dict[str, dict[str, str]] | None = None

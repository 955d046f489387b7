"""Namespaces: a prefix by which tenants of one cluster keep apart, `space%orders`, that a client's user never sees.

A retry or dead-letter topic has it inside, before the group: `%RETRY%space%coupons`. The system's own names have none.
"""

from __future__ import annotations

from typing import Final

from skyrocket.protocol.system_names import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    is_system_name,
)

SEPARATOR: Final = "%"


def with_namespace(namespace: str, name: str) -> str:
    """A topic's or group's name on the wire. One that has the namespace already is left as it is."""
    if not namespace or not name or is_system_name(name):
        return name
    prefix, rest = _split(name)
    if rest.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """A name as the user knows it. One of another namespace is left as it is."""
    prefix, rest = _split(name)
    if not namespace or not rest.startswith(namespace + SEPARATOR):
        return name
    return prefix + rest[len(namespace) + 1 :]


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name

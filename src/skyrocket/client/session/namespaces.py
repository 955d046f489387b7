"""Namespaces: a prefix that separates the tenants of one cluster, `space%orders`. The client adds and removes it.

A retry or dead-letter topic has the namespace before its group: `%RETRY%space%coupons`. System names have none.
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
    """Return a topic's or group's name on the wire. A name that has the namespace already is returned unchanged."""
    if not namespace or not name or is_system_name(name):
        return name
    prefix, rest = _split(name)
    if rest.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """Return a name as the user writes it. A name in another namespace is returned unchanged."""
    prefix, rest = _split(name)
    if not namespace or not rest.startswith(namespace + SEPARATOR):
        return name
    return prefix + rest[len(namespace) + 1 :]


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name

"""Namespaces: a prefix by which tenants of one cluster keep apart, `space%orders`, that a client's user never sees.

A retry or dead-letter topic has it inside, before the group: `%RETRY%space%coupons`. The system's own names have none.
"""

from __future__ import annotations

from typing import Final

SEPARATOR: Final = "%"
RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"

SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "CID_RMQ_SYS_")


def is_system(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith(_SYSTEM_PREFIXES)


def with_namespace(namespace: str, name: str) -> str:
    """A topic's or group's name on the wire. One that has the namespace already is left as it is."""
    if not namespace or not name or is_system(name):
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


def retry_topic(group: str) -> str:
    """Where the broker puts what a group is to get again. The group is the one on the wire: with its namespace."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Where the broker puts what a group could not handle, however often it got it."""
    return DEAD_LETTER_PREFIX + group


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name

"""RocketMQ's versions as numbers in a header: ordinals of an enumeration that Apache extends with every release."""

from __future__ import annotations

from typing import Final

V3_5_8: Final = 137
V4_0_0: Final = 213
V4_9_3: Final = 399
V4_9_4: Final = 401
V4_9_8: Final = 409
V5_0_0: Final = 413
V5_3_0: Final = 473
V5_4_0: Final = 493
V5_5_0: Final = 513

CURRENT: Final = V5_5_0
"""The version in our commands: the one whose behaviour this project follows."""

STRICT_JSON_SINCE: Final = V4_9_4
"""Clients from this version on read routes in strict JSON; older ones expect fastjson's dialect."""


def version_text(version: int) -> str:
    """Format a version, such as 5.5.0. Since 4.0.0 each release has two numbers: that of its snapshot, and its own."""
    if version < V4_0_0 - 1:
        return str(version)
    release = (version - V4_0_0 + 1) // 2
    return f"{4 + release // 100}.{release // 10 % 10}.{release % 10}{'' if (version - V4_0_0) % 2 == 0 else '-SNAPSHOT'}"

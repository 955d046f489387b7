"""Names of topics and groups: they become paths, so what they may be is checked before anything touches a file."""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 127
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


def name_problem(name: str) -> str | None:
    """What is wrong with a topic's or group's name; None when it may be used."""
    if not name:
        return "is empty"
    if len(name) > NAME_LENGTH_MAX:
        return f"has {len(name)} characters; {NAME_LENGTH_MAX} are allowed"
    if _NAME.fullmatch(name) is None:
        return "has characters other than letters, digits and % | _ -"
    return None

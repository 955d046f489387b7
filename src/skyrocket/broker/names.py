"""Check names of topics and groups. Names become paths, so they are checked before anything touches a file."""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 127
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


def name_problem(name: str) -> str | None:
    """Say what is wrong with the name of a topic or group; None when it is valid."""
    if not name:
        return "is empty"
    if len(name) > NAME_LENGTH_MAX:
        return f"has {len(name)} characters; {NAME_LENGTH_MAX} are allowed"
    if _NAME.fullmatch(name) is None:
        return "has characters other than letters, digits and % | _ -"
    return None

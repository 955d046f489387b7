"""Valid names of topics, brokers and clusters.

Names never become paths here, so dots are allowed: Apache's brokers use their host name by default. Two dots in a row are refused
all the same.
"""

from __future__ import annotations

import re
from typing import Final

from skyrocket.nameserver.errors import BadNameError
from skyrocket.nameserver.limits import ADDRESS_CHARACTERS_MAX, NAME_CHARACTERS_MAX

_NAME: Final = re.compile(r"(?!.*\.\.)[%|a-zA-Z0-9_.-]+")
_ADDRESS: Final = re.compile(r"\[?[a-zA-Z0-9_.:%-]+\]?:([0-9]{1,5})")
_SHOWN_MAX: Final = 64


def is_name(name: str) -> bool:
    return len(name) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(name) is not None


def check_name(kind: str, name: str) -> None:
    if not is_name(name):
        shown = repr(name[:_SHOWN_MAX])
        raise BadNameError(
            f"{shown} is not a valid {kind} name: use 1 to {NAME_CHARACTERS_MAX} of a-z A-Z 0-9 % | _ - and single dots."
        )


def check_address(address: str) -> None:
    found = _ADDRESS.fullmatch(address) if len(address) <= ADDRESS_CHARACTERS_MAX else None
    if found is None or not 0 < int(found[1]) < 65_536:
        raise BadNameError(f"{address[:_SHOWN_MAX]!r} is not an address such as 127.0.0.1:10911.")

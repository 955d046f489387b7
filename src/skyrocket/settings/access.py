"""The kinds of the settings of access control: credentials in JSON, and lists of request codes."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from skyrocket.auth.users import AccessKeys
from skyrocket.settings.kinds import ValueKind

_CODE_MAX = 2**31 - 1


def credentials(name_key: str, password_key: str) -> ValueKind:
    """Credentials as Apache writes them, a JSON object of two texts; an empty text stands for none."""

    def read(text: str) -> AccessKeys | None:
        if not text:
            return None
        try:
            found = msgspec.json.decode(text.encode(), type=dict[str, str])
        except msgspec.DecodeError as error:
            raise ValueError("not a JSON object of texts") from error
        if not found[name_key].strip() or not found[password_key].strip():
            raise ValueError("an empty name or password")
        return AccessKeys(found[name_key], found[password_key])

    return ValueKind(f'{{"{name_key}":"…","{password_key}":"…"}}', read, lambda _: "")


INIT_USER: Final = credentials("username", "password")
INNER_CREDENTIALS: Final = credentials("accessKey", "secretKey")


def _read_codes(text: str) -> frozenset[int]:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    codes = frozenset(int(word) for word in words if word.isascii() and word.isdigit())
    if not all(word.isascii() and word.isdigit() for word in words) or any(code > _CODE_MAX for code in codes):
        raise ValueError(text)
    return codes


REQUEST_CODES = ValueKind("request codes, separated by commas", _read_codes, lambda codes: ",".join(map(str, sorted(codes))))

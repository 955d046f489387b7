"""Settings as text, the body of the config commands: `java.util.Properties`, one `name=value` per line.

Reading follows Java, with comments, continued lines and escapes. Two things differ. Text is UTF-8 here, while Java reads every
byte as a Latin-1 character. And writing escapes line ends, backslashes and leading spaces, while Java writes them bare, so that
they are lost or even start another setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from skyrocket.protocol import limits
from skyrocket.protocol.errors import BodyError

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_ENTRY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*+)[ \t\f]*+(?:[=:][ \t\f]*+)?+(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_UNSAFE_IN_NAME: Final = re.compile(r"[\\=: \t\f\r\n#!]")
_UNSAFE_IN_VALUE: Final = re.compile(r"^[ \t\f]|[\\\r\n]")
_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def encode_config(settings: Mapping[str, str]) -> bytes:
    """Encode settings, one per line, in the given order. Apache's servers sort them by name."""
    lines = [f"{_UNSAFE_IN_NAME.sub(_escape, name)}={_UNSAFE_IN_VALUE.sub(_escape, text)}\n" for name, text in settings.items()]
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError as error:
        raise BodyError("The settings have half of a surrogate pair, which is not a character.") from error


def decode_config(data: bytes) -> dict[str, str]:
    """Decode settings to name -> value. If a name occurs twice, the last line wins."""
    if len(data) > limits.CONFIG_TEXT_BYTES_MAX:
        raise BodyError(f"The settings are {len(data)} bytes long; {limits.CONFIG_TEXT_BYTES_MAX} are allowed.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"The settings are not UTF-8 at byte {error.start}.") from error
    settings = {}
    for line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, line
        settings[_unescape(entry[1])] = _unescape(entry[2])
    return settings


def _logical_lines(text: str) -> list[str]:
    """Return the lines without comments and blank lines, with lines that end in a backslash joined to the next."""
    lines = []
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if continued else line
        if part:
            parts.append(part)
        if parts and not continued:
            lines.append("".join(parts))
            parts = []
    if parts:
        lines.append("".join(parts))
    return lines


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_decode_escape, text)
    try:  # two escapes may be the two surrogates of one character
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise BodyError("The settings have half of a surrogate pair, which is not a character.") from error


def _decode_escape(escape: re.Match[str]) -> str:
    code, letter = escape.groups()
    if code is not None:
        return chr(int(code, 16))
    if letter == "u":
        raise BodyError(f"The settings have \\u without four hexadecimal digits: {escape.string[escape.start() :][:16]!r}.")
    return _LETTERS.get(letter, letter)


def _escape(unsafe: re.Match[str]) -> str:
    return _ESCAPES.get(unsafe[0], "\\" + unsafe[0])

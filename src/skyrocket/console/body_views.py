"""A message's body as text for people: as text, as indented JSON, or in hex. Pure. Each view is text, never markup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from skyrocket.console.limits import BODY_BYTES_SHOWN, BODY_PREVIEW_CHARACTERS

_HEX_COLUMNS: Final = 16
_INDENT: Final = "  "
_KEPT: Final = frozenset("\n\t")


class BodyView(NamedTuple):
    """What is shown of a body."""

    kind: str  # text, json or hex
    text: str
    shown_bytes: int
    total_bytes: int

    @property
    def is_cut(self) -> bool:
        return self.shown_bytes < self.total_bytes


def view_body(body: bytes, kind: str = "") -> BodyView:
    """Show a body in the wanted way, or in the one that fits it: JSON, text, or hex for whatever is neither.

    JSON that is too long to be shown whole is shown as text: a part of a document cannot be indented.
    """
    shown = body[:BODY_BYTES_SHOWN]
    if kind not in VIEWS:
        kind = best_view(body)
    text = VIEWS[kind](shown)
    if text is None:
        kind, text = "text", show_text(shown)
    return BodyView(kind, text, len(shown), len(body))


def best_view(body: bytes) -> str:
    if len(body) <= BODY_BYTES_SHOWN and body.lstrip()[:1] in (b"{", b"[") and show_json(body) is not None:
        return "json"
    try:
        text = body[:BODY_BYTES_SHOWN].decode(errors="strict" if len(body) <= BODY_BYTES_SHOWN else "ignore")
    except UnicodeDecodeError:
        return "hex"
    return "text" if all(one.isprintable() or one in "\r\n\t" for one in text) else "hex"


def show_text(body: bytes) -> str:
    """Return a body as text. Bytes that are not UTF-8, and characters that a browser would act on, are shown as escapes."""
    return escape_controls(body.decode("utf-8", "backslashreplace").replace("\r\n", "\n"))


def show_json(body: bytes) -> str | None:
    """Return a JSON document, indented; None when the body is not one. Numbers and repeated names stay as they are written."""
    try:
        document = json.loads(body, parse_float=_Number, parse_int=_Number, parse_constant=_Number, object_pairs_hook=_Members)
        return escape_controls(_indent(document, ""))
    except (ValueError, RecursionError):
        return None


class _Number(str):
    """A number as the document writes it: 1.10 stays 1.10, and 2**70 stays whole."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object, in their order, repeated names included."""


def _indent(value: Any, margin: str) -> str:
    deeper = margin + _INDENT
    if isinstance(value, _Members):
        members = (f"{deeper}{json.dumps(name, ensure_ascii=False)}: {_indent(one, deeper)}" for name, one in value)
        return _enclose("{}", members, margin)
    if isinstance(value, list):
        return _enclose("[]", (deeper + _indent(one, deeper) for one in value), margin)
    return value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _enclose(brackets: str, lines: Iterable[str], margin: str) -> str:
    inside = ",\n".join(lines)
    return f"{brackets[0]}\n{inside}\n{margin}{brackets[1]}" if inside else brackets


def show_hex(body: bytes) -> str:
    """Return offset, bytes and characters, sixteen to a line."""
    lines = []
    for start in range(0, len(body), _HEX_COLUMNS):
        part = body[start : start + _HEX_COLUMNS]
        codes = part.hex(" ").ljust(_HEX_COLUMNS * 3 - 1)
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {codes}  {characters}")
    return "\n".join(lines)


def preview_body(body: bytes) -> str:
    """Return the beginning of a body in one line, for a row of a table."""
    text = " ".join(show_text(body[: 4 * BODY_PREVIEW_CHARACTERS]).split())
    return text if len(text) <= BODY_PREVIEW_CHARACTERS else text[: BODY_PREVIEW_CHARACTERS - 1] + "…"


def escape_controls(text: str) -> str:
    """Show characters that a browser would drop or act on, such as NUL or a change of direction, as escapes."""
    return "".join(one if one.isprintable() or one in _KEPT else _escape(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode()


VIEWS: Final[dict[str, Callable[[bytes], str | None]]] = {"text": show_text, "json": show_json, "hex": show_hex}

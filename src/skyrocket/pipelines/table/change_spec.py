"""Where a message of changes has its key, its version and its mark of deletion. Pure.

    id                    a field of the JSON body
    property:id           a property of the message
    message:key           the message's first key
    message:offset        the message's offset in its queue; as a version only

A key of several parts is one text, the JSON array of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.json_columns.column_kinds import canonical_json, is_int64
from skyrocket.pipelines.json_columns.documents import BadBodyError

KEY_BYTES_MAX: Final = 2_000  # an index of PostgreSQL takes a little more
FIELD, PROPERTY, MESSAGE = "field", "property", "message"
_MESSAGE_PARTS: Final = ("key", "offset")


class Source(NamedTuple):
    """A place in a message."""

    kind: str  # FIELD, PROPERTY or MESSAGE
    name: str

    def __str__(self) -> str:
        return {FIELD: f"field '{self.name}'", PROPERTY: f"property '{self.name}'", MESSAGE: f"{self.name} of the message"}[
            self.kind
        ]


class MessageParts(NamedTuple):
    """What sources read of a message."""

    document: Mapping[str, Any]
    properties: Mapping[str, str]
    keys: Sequence[str]
    offset: int


class ChangeSpec(msgspec.Struct, frozen=True):
    """As the user wrote it. It is kept with the table: another one would give another table."""

    key: list[str]
    version: str
    delete_when: str | None = None


def parse_source(text: str, option: str) -> Source:
    """Parse a source. Raise ArgumentError, which names the option, for one that does not exist."""
    kind, colon, name = text.partition(":")
    if colon and kind in (PROPERTY, MESSAGE):
        if not name or (kind == MESSAGE and name not in _MESSAGE_PARTS):
            raise ArgumentError(f"{option} is '{text}'. Use FIELD, property:NAME, message:key or message:offset.")
        return Source(kind, name)
    if not text:
        raise ArgumentError(f"{option} is empty. Use FIELD, property:NAME, message:key or message:offset.")
    return Source(FIELD, text)


class ChangeReader:
    """Reads key, version and deletion of messages, by a spec."""

    def __init__(self, spec: ChangeSpec) -> None:
        if not spec.key:
            raise ArgumentError("--key is missing. Name the field that tells which row a change belongs to.")
        self.key = [parse_source(text, "--key") for text in spec.key]
        self.version = parse_source(spec.version, "--version")
        self.deletion: Source | None = None
        self._deletion_text = ""
        if Source(MESSAGE, "offset") in self.key:
            raise ArgumentError("--key is message:offset, which is another one for each message. It can be a version only.")
        if self.version == Source(MESSAGE, "key"):
            raise ArgumentError("--version is message:key. Use FIELD, property:NAME or message:offset.")
        if spec.delete_when is not None:
            place, equals, self._deletion_text = spec.delete_when.rpartition("=")
            if not equals:
                raise ArgumentError(f"--delete-when is '{spec.delete_when}'. Use FIELD=VALUE or property:NAME=VALUE.")
            self.deletion = parse_source(place, "--delete-when")

    @property
    def needs_properties(self) -> bool:
        return any(source.kind == PROPERTY for source in (*self.key, self.version, self.deletion) if source is not None)

    def read_key(self, parts: MessageParts) -> str:
        """Return the key of a change. Raise BadBodyError if the message has none."""
        found = [_key_text(_read(source, parts), source) for source in self.key]
        key = found[0] if len(found) == 1 else canonical_json(found).decode()
        if len(key.encode()) > KEY_BYTES_MAX:
            raise BadBodyError(f"the key is longer than {KEY_BYTES_MAX} bytes")
        return key

    def read_version(self, parts: MessageParts) -> int:
        value = _read(self.version, parts)
        if isinstance(value, str) and _is_decimal(value):
            value = int(value)
        if not is_int64(value):
            what = "missing" if value is None else "not a whole number of 64 bits"
            raise BadBodyError(f"the version, {self.version}, is {what}")
        return int(value)

    def is_deletion(self, parts: MessageParts) -> bool:
        if self.deletion is None:
            return False
        value = _read(self.deletion, parts)
        if isinstance(value, bool):
            value = "true" if value else "false"
        return value is not None and str(value) == self._deletion_text


def _read(source: Source, parts: MessageParts) -> Any:
    if source.kind == FIELD:
        return parts.document.get(source.name)
    if source.kind == PROPERTY:
        return parts.properties.get(source.name)
    if source.name == "offset":
        return parts.offset
    return parts.keys[0] if parts.keys else None


def _key_text(value: Any, source: Source) -> str:
    """Return a part of a key as text: 7 and "7" are the same key, since a property can only have the latter."""
    if value is None or value == "":
        raise BadBodyError(f"the key, {source}, is missing")
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise BadBodyError(f"the key, {source}, is neither a text nor a whole number")


def _is_decimal(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20

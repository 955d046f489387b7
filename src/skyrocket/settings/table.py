"""Settings of a server: one typed row each, with Apache's key where it means the same.

@dataclass(frozen=True, slots=True, kw_only=True)
class LampSettings(Settings):
    OWNER = "the lamp"
    watts: int = setting(5, "lampWatts", whole(1, 60), "How bright.", changeable=True)

LampSettings().with_texts({"lampWatts": "7"})

A file, the command line and a request all go through the same table: an unknown key or a wrong value is refused with a sentence
that names it. A row says whether it may change while the server runs. Nothing that names a path, an address, a command or a
class may: that is how other servers were made to write files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from skyrocket.settings.errors import FixedSettingError, SettingsError
from skyrocket.settings.kinds import Kind

T = TypeVar("T")
_TEXT_SHOWN_MAX = 64
_NEVER_FROM_AFAR = frozenset({"rocketmqHome", "configBlackList"})  # Apache refuses them as we do, although we have no such row
_HIDDEN = "tls."  # where certificates lie is not told


class Row(NamedTuple):
    attribute: str
    key: str
    kind: Kind
    default: object
    changeable: bool
    note: str


def setting(default: T, key: str, kind: Kind, note: str = "", *, changeable: bool = False) -> T:
    return field(default=default, metadata={"key": key, "kind": kind, "changeable": changeable, "note": note})


class Settings:
    """The base of a frozen dataclass, each of whose fields is a `setting`."""

    __slots__ = ()
    OWNER: ClassVar[str] = "the server"  # in sentences

    @property
    def changes_path(self) -> Path:
        """The file where changes made while the server runs are kept."""
        raise NotImplementedError

    def check(self) -> None:
        """ValueError for values that do not go together."""

    @classmethod
    def rows(cls) -> Mapping[str, Row]:
        """By key, in the order of the table."""
        found: Mapping[str, Row] = _rows(cls)  # type: ignore[arg-type]  # a class is hashable
        return found

    def to_texts(self) -> dict[str, str]:
        """Key -> value in the order of the keys, as Apache shows them."""
        shown = [row for key, row in sorted(self.rows().items()) if not key.startswith(_HIDDEN)]
        return {row.key: row.kind.show(getattr(self, row.attribute)) for row in shown}

    def with_texts(self, texts: Mapping[str, str]) -> Self:
        """All of them, or SettingsError, which names every key that is unknown and every value that is wrong."""
        problems = []
        changes: dict[str, Any] = {}
        for key, text in texts.items():
            row = self.rows().get(key)
            if row is None:
                problems.append(f"'{key[:_TEXT_SHOWN_MAX]}' is not a setting of {self.OWNER}")
                continue
            try:
                changes[row.attribute] = row.kind.read(text.strip())
            except (ValueError, KeyError):
                problems.append(f"{key} must be {row.kind.words}, not '{text[:_TEXT_SHOWN_MAX]}'")
        if problems:
            raise SettingsError("; ".join(problems) + ".")
        changed = replace(self, **changes)  # type: ignore[type-var]  # it is a dataclass below here
        try:
            changed.check()
        except ValueError as error:
            raise SettingsError(str(error)) from error
        return changed

    def changed_from_afar(self, texts: Mapping[str, str]) -> Self:
        """The same for a request. FixedSettingError for what no request may change."""
        rows = self.rows()
        fixed = [key for key in texts if key in _NEVER_FROM_AFAR or (key in rows and not rows[key].changeable)]
        if fixed:
            verb = "is" if len(fixed) == 1 else "are"
            raise FixedSettingError(f"{' and '.join(fixed)} {verb} not to be changed while {self.OWNER} runs.")
        return self.with_texts(texts)


@cache
def _rows(table: Any) -> Mapping[str, Row]:
    found = {}
    for each in fields(table):
        key = each.metadata["key"]
        found[key] = Row(each.name, key, each.metadata["kind"], each.default, each.metadata["changeable"], each.metadata["note"])
    return found

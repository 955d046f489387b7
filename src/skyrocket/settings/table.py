"""The table of a server's settings: one typed row each, under Apache's key where Apache has the same setting.

@dataclass(frozen=True, slots=True, kw_only=True)
class LampSettings(Settings):
    OWNER = "the lamp"
    watts: int = setting(5, "lampWatts", whole(1, 60), "How bright.", changeable=True)

LampSettings().with_texts({"lampWatts": "7"})

Files, the command line and requests use the same table. It refuses an unknown key or an invalid value with a sentence that
names it. `FOREIGN` lists keys that only Apache's server has. A row says whether the setting may change at run time. No setting
that names a path, an address, a command or a class may change: attackers used such requests to make other servers write files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from skyrocket.settings.errors import FixedSettingError, SettingsError
from skyrocket.settings.foreign_keys import ForeignKey, separate_foreign
from skyrocket.settings.kinds import ValueKind

T = TypeVar("T")
_TEXT_SHOWN_MAX = 64
_SIMILAR = 0.8  # how similar a known key is to a misspelt one, from 0 to 1
_FIXED_IN_APACHE = frozenset({"rocketmqHome", "configBlackList"})  # no rows of ours; Apache refuses these keys with the same code
_HIDDEN = "tls."  # responses do not show where certificates are


class Row(NamedTuple):
    attribute: str
    key: str
    kind: ValueKind
    default: object
    changeable: bool
    note: str
    secret: bool  # no response, error or log shows the value


def setting(default: T, key: str, kind: ValueKind, note: str = "", *, changeable: bool = False, secret: bool = False) -> T:
    metadata = {"key": key, "kind": kind, "changeable": changeable, "note": note, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


class Settings:
    """The base of a frozen dataclass in which every field is a `setting`."""

    __slots__ = ()
    OWNER: ClassVar[str] = "the server"  # in error messages
    FOREIGN: ClassVar[Mapping[str, ForeignKey]] = {}  # keys of Apache's server that are not settings here

    @property
    def changes_path(self) -> Path:
        """The file that holds changes made at run time."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ValueError for values that exclude each other."""

    @classmethod
    def rows(cls) -> Mapping[str, Row]:
        """Return the rows by key, in the order of the table."""
        found: Mapping[str, Row] = _rows(cls)  # type: ignore[arg-type]  # a class is hashable
        return found

    def to_texts(self) -> dict[str, str]:
        """Format the settings as key -> value, sorted by key as Apache does. A secret's value is empty."""
        shown = [row for key, row in sorted(self.rows().items()) if not key.startswith(_HIDDEN)]
        return {row.key: "" if row.secret else row.kind.show(getattr(self, row.attribute)) for row in shown}

    def with_texts(self, texts: Mapping[str, str]) -> Self:
        """Apply texts, all or none. The SettingsError names every unknown key and every invalid value."""
        problems = []
        changes: dict[str, Any] = {}
        for key, text in texts.items():
            row = self.rows().get(key)
            if row is None:
                problems.append(self._explain_unknown(key))
                continue
            try:
                changes[row.attribute] = row.kind.read(text.strip())
            except (ValueError, KeyError):
                shown = "" if row.secret else f", not '{text[:_TEXT_SHOWN_MAX]}'"
                problems.append(f"{key} must be {row.kind.words}{shown}")
        if problems:
            raise SettingsError("; ".join(problems) + ".")
        changed = replace(self, **changes)  # type: ignore[type-var]  # subclasses are dataclasses
        try:
            changed.check()
        except ValueError as error:
            raise SettingsError(str(error)) from error
        return changed

    @classmethod
    def separate_foreign(cls, texts: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
        """Return the texts without Apache's keys that have no effect here, and a warning that names these keys, if any.

        Raise SettingsError for one that asks for something that this server does not do.
        """
        foreign = {key: known for key, known in cls.FOREIGN.items() if key not in cls.rows()}
        return separate_foreign(texts, foreign, cls.OWNER)

    def _explain_unknown(self, key: str) -> str:
        if key in self.FOREIGN:
            return f"{key} has no effect on {self.OWNER}: {self.FOREIGN[key].reason}"
        from difflib import get_close_matches  # noqa: PLC0415 — only for a mistake

        shown = key[:_TEXT_SHOWN_MAX]
        similar = get_close_matches(shown, [*self.rows(), *self.FOREIGN], 1, _SIMILAR)
        hint = f" (did you mean {similar[0]}?)" if similar else ""
        return f"'{shown}' is not a setting of {self.OWNER}{hint}"

    def change_by_request(self, texts: Mapping[str, str]) -> Self:
        """Apply texts of a request. Raise FixedSettingError for a setting that no request may change."""
        rows = self.rows()
        fixed = [key for key in texts if key in _FIXED_IN_APACHE or (key in rows and not rows[key].changeable)]
        if fixed:
            raise FixedSettingError(f"{' and '.join(fixed)} cannot be changed while {self.OWNER} runs.")
        return self.with_texts(texts)


@cache
def _rows(table: Any) -> Mapping[str, Row]:
    found = {}
    for each in fields(table):
        found[each.metadata["key"]] = Row(attribute=each.name, default=each.default, **each.metadata)
    return found

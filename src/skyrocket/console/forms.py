"""Fields of forms and addresses, read into values. Pure. A field that cannot be used raises InputError with a sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from skyrocket.console.errors import InputError
from skyrocket.console.limits import FORM_FIELDS_MAX


class Fields:
    """The fields of a form or of a query. A field that is missing is empty."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs
        self._values = dict(reversed(pairs))  # the first of several

    def text(self, name: str) -> str:
        """Return a field without white space around it."""
        return self._values.get(name, "").strip()

    def raw(self, name: str) -> str:
        """Return a field as it was typed, with the line ends of a text area as \\n."""
        return self._values.get(name, "").replace("\r\n", "\n")

    def required(self, name: str, what: str) -> str:
        value = self.text(name)
        if not value:
            raise InputError(f"{what} is missing.")
        return value

    def all(self, name: str) -> list[str]:
        """Return every value of a field that may stand several times, such as a checkbox in each row."""
        return [value for key, value in self._pairs if key == name]

    def is_set(self, name: str) -> bool:
        return self.text(name) not in ("", "0", "false", "off")

    def number(self, name: str, what: str, low: int, high: int) -> int | None:
        """Return a whole number; None when the field is empty."""
        text = self.text(name)
        if not text:
            return None
        if not text.isascii() or not text.removeprefix("-").isdigit() or not low <= int(text[:20]) <= high:
            raise InputError(f"{what} is a whole number from {low:,} to {high:,}, not '{text[:40]}'.")
        return int(text)

    def choice(self, name: str, what: str, choices: Collection[str], default: str = "") -> str:
        value = self.text(name) or default
        if value not in choices:
            raise InputError(f"{what} is one of {', '.join(choices)}; not '{value[:40]}'.")
        return value

    def moment_ms(self, name: str, what: str) -> int | None:
        """Return a time in milliseconds since 1970; None when the field is empty.

        A browser's field for times has no zone. It means UTC, as all times on the pages.
        """
        text = self.text(name)
        if not text:
            return None
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            raise InputError(f"{what} is a time such as 2026-11-15T06:51 (UTC), not '{text[:40]}'.") from None

    def pairs_of_lines(self, name: str, what: str) -> dict[str, str]:
        """Return the lines name=value of a text area."""
        found: dict[str, str] = {}
        for line in self.raw(name).splitlines():
            if not line.strip():
                continue
            key, separator, value = line.partition("=")
            if not separator or not key.strip():
                raise InputError(f"{what} are lines of name=value, not '{line[:40]}'.")
            found[key.strip()] = value.strip()
        return found

    def confirm(self, expected: str) -> None:
        """Raise InputError unless the visitor typed the name of what is to be destroyed."""
        if self.text("confirm") != expected:
            raise InputError(f"Type {expected} to confirm. Nothing was changed.")


def parse_fields(encoded: str) -> Fields:
    """Parse an encoded form or the query of an address."""
    try:
        return Fields(parse_qsl(encoded, keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="replace"))
    except ValueError:
        raise InputError(f"A form has at most {FORM_FIELDS_MAX} fields.") from None

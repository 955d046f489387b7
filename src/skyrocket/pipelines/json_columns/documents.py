"""Bodies to documents, and documents to values of typed columns. Pure.

    document = parse_document(body)          # raises BadBodyError
    fitted = fit_document(document, columns)
    fitted.values                            # one for each column; None where the document has none
    fitted.rest                              # JSON of the fields that have no column, or a value that its column cannot hold
    fitted.drift                             # these fields, such as "text:color": a text came in field color

Nothing of a document is lost: its columns and its rest together have every field that is not null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from skyrocket.pipelines.json_columns.column_kinds import KINDS, MISFIT, canonical_json, kind_of
from skyrocket.pipelines.json_columns.json_schema import JsonColumns

_DECODER: Final = msgspec.json.Decoder()
_SHOWN_MAX: Final = 100  # characters of a name or an error in a reason


class BadBodyError(ValueError):
    """A body is not a JSON object, or lacks something. The message is one clause, such as "the body is not JSON: …"."""


class FittedDocument(NamedTuple):
    values: list[Any]
    rest: bytes | None
    drift: list[str] | None


def parse_document(body: bytes) -> dict[str, Any]:
    """Parse a body. Raise BadBodyError if it is anything but one JSON object."""
    try:
        found = _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadBodyError(f"the body is not JSON: {str(error)[:_SHOWN_MAX]}") from error
    except RecursionError as error:
        raise BadBodyError("the body is nested too deeply") from error
    if not isinstance(found, dict):
        raise BadBodyError(f"the body is {_describe(found)}, not a JSON object")
    return found


def _describe(value: Any) -> str:
    if isinstance(value, list):
        return "a JSON array"
    return "null" if value is None else f"a JSON {kind_of(value)}"


def has_nul(value: Any) -> bool:
    """Whether a string in a document has the character NUL, which PostgreSQL cannot hold."""
    return b"\\u0000" in canonical_json(value) and _has_nul(value)


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(name) or _has_nul(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))


class DocumentFitter:
    """Fits documents to one set of columns."""

    def __init__(self, columns: JsonColumns) -> None:
        self._fits = [(column.name, KINDS[column.kind].fit) for column in columns.columns]
        self._names = frozenset(columns.names)
        self._required = tuple(columns.required)

    def fit(self, document: Mapping[str, Any]) -> FittedDocument:
        """Return the values of a document. Raise BadBodyError if a required field is missing."""
        for name in self._required:
            if document.get(name) is None:
                raise BadBodyError(f"the required field '{name[:_SHOWN_MAX]}' is missing")
        values: list[Any] = []
        rest: dict[str, Any] = {}
        for name, fit in self._fits:
            value = document.get(name)
            if value is not None:
                fitted = fit(value)
                if fitted is MISFIT:
                    rest[name] = value
                    fitted = None
                value = fitted
            values.append(value)
        if len(document) > len(self._names) or not document.keys() <= self._names:
            rest.update((name, value) for name, value in document.items() if name not in self._names and value is not None)
        if not rest:
            return FittedDocument(values, None, None)
        return FittedDocument(values, canonical_json(rest), [f"{kind_of(value)}:{name}" for name, value in rest.items()])

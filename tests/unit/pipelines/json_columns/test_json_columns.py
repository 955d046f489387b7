"""JSON bodies as typed columns: kinds, schemas, inference, and documents of which nothing is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.json_columns.column_kinds import KINDS, MISFIT, common_kind, kind_of
from skyrocket.pipelines.json_columns.documents import BadBodyError, DocumentFitter, has_nul, parse_document
from skyrocket.pipelines.json_columns.drift import FIELDS_MAX, DriftCounter, DriftedField
from skyrocket.pipelines.json_columns.json_schema import (
    COLUMNS_MAX,
    JsonColumn,
    JsonColumns,
    infer_columns,
    may_be_column,
    parse_json_schema,
)


@pytest.mark.parametrize(
    ("kind", "value", "fitted"),
    [
        ("boolean", True, True),
        ("boolean", 1, MISFIT),
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("bigint", 2**63, MISFIT),
        ("bigint", True, MISFIT),
        ("bigint", 1.0, MISFIT),
        ("double", 1.5, 1.5),
        ("double", 2**53, 2.0**53),
        ("double", 2**53 + 1, MISFIT),
        ("double", True, MISFIT),
        ("text", "", ""),
        ("text", 1, MISFIT),
        ("timestamp", "2026-11-18T09:00:00Z", datetime(2026, 11, 18, 9, tzinfo=UTC)),
        ("timestamp", "2026-11-18T10:00:00+01:00", datetime(2026, 11, 18, 9, tzinfo=UTC)),
        ("timestamp", "2026-11-18T09:00:00", MISFIT),
        ("timestamp", "0001-01-01T00:00:00+10:00", MISFIT),
        ("timestamp", "soon", MISFIT),
        ("timestamp", 5, MISFIT),
        ("json", {"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        ("json", "x", '"x"'),
    ],
)
def test_a_value_fits_a_kind_exactly_or_not_at_all(kind: str, value: Any, fitted: Any):
    found = KINDS[kind].fit(value)
    assert found is fitted if fitted is MISFIT else (found == fitted and type(found) is type(fitted))


def test_values_have_the_narrowest_kind_and_columns_the_one_that_holds_all():
    assert [kind_of(value) for value in (True, 1, 1.5, "x", {}, [], 2**70)] == [
        *("boolean", "bigint", "double", "text", "json", "json", "json")
    ]
    assert common_kind({"bigint", "double"}) == "double"
    assert common_kind({"bigint"}) == "bigint"
    assert common_kind({"bigint", "text"}) == "json"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is not JSON: "),
        (b"{", "the body is not JSON: "),
        (b"{}{}", "the body is not JSON: "),
        (b'{"a": NaN}', "the body is not JSON: "),
        (b'{"a": 1e999}', "the body is not JSON: "),
        (b'{"a": "\xff"}', "the body is not JSON: "),
        (b'{"a": "\\ud800"}', "the body is not JSON: "),
        (b"1" * 5_000, "the body is "),
        (b"[" * 100_000, "the body is "),
        (b"[1]", "the body is a JSON array, not a JSON object"),
        (b"null", "the body is null, not a JSON object"),
        (b'"x"', "the body is a JSON text, not a JSON object"),
    ],
)
def test_a_bad_body_is_refused_with_a_reason(body: bytes, reason: str):
    with pytest.raises(BadBodyError) as caught:
        parse_document(body)
    assert str(caught.value).startswith(reason)


def test_a_nul_is_found_in_values_and_names_at_any_depth():
    assert all(map(has_nul, ({"a": "x\0"}, {"a": [{"b": "\0"}]}, {"\0": 1})))
    assert not any(map(has_nul, ({"a": "x"}, {"a": "\\u0000"}, {})))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "c", "_x", "A", "d.e"]), values, max_size=6)


@settings(max_examples=200, deadline=None)
@given(seen=st.lists(documents, max_size=4), document=documents)
def test_columns_and_rest_together_have_every_field_that_is_not_null(seen: list[dict[str, Any]], document: dict[str, Any]):
    columns = infer_columns(seen)
    fitted = DocumentFitter(columns).fit(document)
    found = {} if fitted.rest is None else json.loads(fitted.rest)
    for column, value in zip(columns.columns, fitted.values, strict=True):
        if value is not None:
            assert column.name not in found
            found[column.name] = json.loads(value) if column.kind == "json" else value
    assert found == {name: value for name, value in document.items() if value is not None}


@settings(max_examples=100, deadline=None)
@given(seen=st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), values, max_size=3), max_size=4))
def test_what_columns_were_inferred_from_fits_them_but_for_numbers_that_no_double_has(seen: list[dict[str, Any]]):
    columns = infer_columns(seen)
    for document in seen:
        fitted = DocumentFitter(columns).fit(document)
        for entry in fitted.drift or ():
            kind, _, name = entry.partition(":")
            assert (kind, type(document[name])) == ("bigint", int)
            assert abs(document[name]) > 2**53


def test_a_schema_gives_columns_and_required_fields():
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "price": {"type": "number"},
            "either": {"type": ["string", "integer"]},
            "lines": {"type": "array"},
            "any": {},
            "ref": {"$ref": "#/x"},
            "ok": {"type": "boolean"},
            "name": {"type": "string"},
        },
        "required": ["id"],
    }
    found = parse_json_schema(json.dumps(schema).encode(), "s.json")
    kinds = {column.name: column.kind for column in found.columns}
    assert kinds == {
        "id": "bigint",
        "at": "timestamp",
        "price": "double",
        "either": "json",
        "lines": "json",
        "any": "json",
        "ref": "json",
        "ok": "boolean",
        "name": "text",
    }
    with pytest.raises(BadBodyError, match=r"^the required field 'id' is missing$"):
        DocumentFitter(found).fit({"name": "x"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "s.json is not JSON: "),
        ("[]", "s.json is not a JSON Schema of an object: it has no 'properties'."),
        ('{"properties": {}}', "s.json is not a JSON Schema of an object: it has no 'properties'."),
        ('{"properties": {"_key": {}}}', "s.json has the property '_key', which cannot be a column."),
        ('{"properties": {"a": {}, "A": {}}}', "s.json has the property 'A', which cannot be a column."),
        ('{"properties": {"a": {}}, "required": 1}', "s.json has a 'required' that is not a list of names."),
    ],
)
def test_a_wrong_schema_is_one_sentence(text: str, sentence: str):
    with pytest.raises(ArgumentError) as caught:
        parse_json_schema(text.encode(), "s.json")
    assert str(caught.value).startswith(sentence)


def test_inference_is_bounded_and_passes_over_names_that_cannot_be_columns():
    assert len(infer_columns([{f"f{number}": 1 for number in range(COLUMNS_MAX + 5)}]).columns) == COLUMNS_MAX
    assert [name for name in ("a", "a b", "_a", "", "ü" * 32, "a.b", "a\n", "x" * 63) if may_be_column(name)] == ["a", "x" * 63]
    assert infer_columns([{"Id": 1, "id": 2, "a": None}]).names == ["Id"]


def test_drift_is_counted_by_field_and_bounded():
    drift = DriftCounter()
    drift.add(["text:a:b", "json:c", "text:a:b"])
    assert drift.fields(JsonColumns([JsonColumn("a:b", "bigint")])) == [
        DriftedField("a:b", "text", "bigint", 2),
        DriftedField("c", "json", None, 1),
    ]
    drift.add(f"text:{number}" for number in range(FIELDS_MAX))
    assert (len(drift.counts), drift.others) == (FIELDS_MAX, 2)

"""Typed columns beside raw bodies."""

from __future__ import annotations

import pyarrow as pa

from skyrocket.pipelines.json_columns.body_columns import BODY_COLUMNS, BodyColumns
from skyrocket.pipelines.json_columns.json_schema import JsonColumn, JsonColumns

COLUMNS = JsonColumns([JsonColumn("id", "bigint"), JsonColumn("name", "text")], required=["id"])


def batch(*bodies: bytes | None) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(range(len(bodies)), pa.int64()), pa.array(bodies, pa.binary())], names=["queueOffset", "body"]
    )


def test_a_body_has_a_struct_a_rest_and_an_error_beside_it():
    bodies = (b'{"id": 1, "name": "x"}', b'{"id": 2, "name": 5, "more": [1]}', b"bad", b"", None, b'{"name": "y"}')
    adder = BodyColumns(COLUMNS)
    (found,) = adder.add([batch(*bodies)])
    assert found.schema.names == ["queueOffset", "body", *BODY_COLUMNS]
    rows = found.to_pylist()
    assert [row["body"] for row in rows] == list(bodies)
    assert [row["json"] for row in rows] == [{"id": 1, "name": "x"}, {"id": 2, "name": None}, None, None, None, None]
    assert [row["jsonRest"] for row in rows] == [None, '{"more":[1],"name":5}', None, None, None, None]
    assert [row["jsonError"] is None for row in rows] == [True, True, False, False, False, False]
    assert rows[5]["jsonError"] == "the required field 'id' is missing"
    assert adder.take_counts() == (4, {"bigint:name": 1, "json:more": 1})
    assert adder.take_counts() == (0, {})


def test_an_empty_batch_has_the_columns_too():
    (found,) = BodyColumns(COLUMNS).add([batch()])
    assert (found.num_rows, found.schema.names[-3:]) == (0, list(BODY_COLUMNS))

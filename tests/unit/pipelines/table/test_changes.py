"""Messages to changes: keys, versions and deletions from all places, reasons, and digests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.pipelines.table.change_spec import KEY_BYTES_MAX, ChangeReader, ChangeSpec
from skyrocket.pipelines.table.changes import DELETED_DIGEST, ChangeDecoder, DecoderSettings
from skyrocket.pipelines.table.fold import EXPECTED_VERSION
from skyrocket.pipelines.table.job import TableOptions, check_arguments
from skyrocket.pipelines.table.targets import default_table


def decode(
    spec: ChangeSpec,
    body: bytes,
    properties: dict[str, str] | None = None,
    keys: tuple[str, ...] = (),
    offset: int = 7,
    **given: Any,
) -> dict[str, Any]:
    """Decode one message."""
    batch = pa.RecordBatch.from_pydict(
        {
            "broker": ["broker-a"],
            "queueId": pa.array([3], pa.int32()),
            "queueOffset": pa.array([offset], pa.int64()),
            "msgId": ["id"],
            "keys": pa.array([list(keys)], pa.list_(pa.string())),
            "properties": pa.array([list((properties or {}).items())], pa.map_(pa.string(), pa.string())),
            "body": pa.array([body], pa.binary()),
        }
    )
    (row,) = ChangeDecoder(DecoderSettings(spec, JsonColumns(), **given)).decode(batch).to_pylist()
    return row


PLAIN = ChangeSpec(["id"], "v")


@pytest.mark.parametrize(
    ("spec", "body", "given", "key", "version"),
    [
        (PLAIN, b'{"id": 7, "v": 2}', {}, "7", 2),
        (PLAIN, b'{"id": "7", "v": "-2"}', {}, "7", -2),
        (ChangeSpec(["property:p"], "property:q"), b"{}", {"properties": {"p": "k", "q": "12"}}, "k", 12),
        (ChangeSpec(["message:key"], "message:offset"), b"{}", {"keys": ("k1", "k2"), "offset": 99}, "k1", 99),
        (ChangeSpec(["a", "b"], "v"), b'{"a": "x", "b": 1, "v": 1}', {}, '["x","1"]', 1),
        (ChangeSpec(["prop:p"], "v"), b'{"prop:p": "x", "v": 1}', {}, "x", 1),
    ],
)
def test_key_and_version_come_from_where_the_spec_says(
    spec: ChangeSpec, body: bytes, given: dict[str, Any], key: str, version: int
):
    row = decode(spec, body, **given)
    assert (row["_key"], row["_version"], row["_deleted"], row["_reason"]) == (key, version, False, None)
    assert (row["_broker"], row["_queue"], row["_message_id"], row["_body"]) == ("broker-a", 3, "id", None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"v": 1}', "the key, field 'id', is missing"),
        (b'{"id": "", "v": 1}', "the key, field 'id', is missing"),
        (b'{"id": 1.5, "v": 1}', "the key, field 'id', is neither a text nor a whole number"),
        (b'{"id": true, "v": 1}', "the key, field 'id', is neither a text nor a whole number"),
        (b'{"id": "x"}', "the version, field 'v', is missing"),
        (b'{"id": "x", "v": 1.5}', "the version, field 'v', is not a whole number of 64 bits"),
        (b'{"id": "x", "v": "1.5"}', "the version, field 'v', is not a whole number of 64 bits"),
        (b'{"id": "x", "v": 9223372036854775808}', "the version, field 'v', is not a whole number of 64 bits"),
        (b'{"id": "%s", "v": 1}' % (b"x" * (KEY_BYTES_MAX + 1)), f"the key is longer than {KEY_BYTES_MAX} bytes"),
        (b"", "the key, field 'id', is missing"),
        (b'{"id": "x", "v": 1, "a": %s}' % (b"[" * 5000 + b"]" * 5000), "the body is nested too deeply"),
    ],
)
def test_a_message_that_is_no_change_has_a_reason_and_its_body(body: bytes, reason: str):
    row = decode(PLAIN, body)
    assert (row["_reason"], row["_body"], row["_key"], row["_version"]) == (reason, body, None, None)


def test_empty_bodies_null_and_the_mark_are_deletions():
    by_property = ChangeSpec(["property:id"], "property:v", "property:op=d")
    about = {"id": "k", "v": "3"}
    for body in (b"", b"null", b" null\n"):
        row = decode(by_property, body, about)
        assert (row["_key"], row["_version"], row["_deleted"], row["_digest"]) == ("k", 3, True, DELETED_DIGEST)
    assert decode(by_property, b'{"a": 1}', {**about, "op": "d"})["_deleted"]
    assert not decode(by_property, b'{"a": 1}', {**about, "op": "u"})["_deleted"]
    for mark, value in (("true", b"true"), ("1", b"1"), ("d", b'"d"')):
        spec = ChangeSpec(["id"], "v", f"gone={mark}")
        assert decode(spec, b'{"id": 1, "v": 1, "gone": %s}' % value)["_deleted"]
    assert not decode(ChangeSpec(["id"], "v", "gone=true"), b'{"id": 1, "v": 1}')["_deleted"]


def test_the_digest_is_that_of_the_content_whatever_its_form():
    one = decode(PLAIN, b'{"id": 1, "v": 1, "a": {"x": 1, "y": [2]}}')["_digest"]
    assert decode(PLAIN, b' {"a":{"y":[2],"x":1},"v":1,"id":1}', offset=8)["_digest"] == one
    assert decode(PLAIN, b'{"id": 1, "v": 1, "a": {"x": 1, "y": [3]}}')["_digest"] != one
    assert one < DELETED_DIGEST


def test_a_nul_is_refused_for_a_target_that_cannot_hold_it():
    body = b'{"id": 1, "v": 1, "a": "x\\u0000"}'
    assert decode(PLAIN, body)["_reason"] is None
    refused = decode(PLAIN, body, refuse_nul=True)
    assert (refused["_reason"], refused["_body"]) == ("a text has the character NUL, which the target cannot hold", body)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (ChangeSpec([], "v"), "--key is missing."),
        (ChangeSpec([""], "v"), "--key is empty. Use FIELD"),
        (ChangeSpec(["property:"], "v"), "--key is 'property:'. Use FIELD"),
        (ChangeSpec(["message:id"], "v"), "--key is 'message:id'. Use FIELD"),
        (ChangeSpec(["message:offset"], "v"), "--key is message:offset, which is another one for each message."),
        (ChangeSpec(["id"], "message:key"), "--version is message:key."),
        (ChangeSpec(["id"], "v", "op"), "--delete-when is 'op'. Use FIELD=VALUE"),
    ],
)
def test_a_wrong_spec_is_one_sentence(spec: ChangeSpec, sentence: str):
    with pytest.raises(ArgumentError) as caught:
        ChangeReader(spec)
    assert str(caught.value).startswith(sentence)


def test_versions_that_count_no_changes_of_a_key_are_refused_where_they_must():
    wanted = TableOptions("t", ChangeSpec(["id"], "message:offset"), EXPECTED_VERSION)
    with pytest.raises(ArgumentError, match="does not count the changes of a key"):
        check_arguments(wanted, "delta:/x")


def test_a_table_is_named_as_its_topic():
    assert [default_table(topic) for topic in ("orders", "Pay-EU.v2", "%RETRY%g", "%%")] == [
        *("orders", "pay_eu_v2", "retry_g", "changes")
    ]

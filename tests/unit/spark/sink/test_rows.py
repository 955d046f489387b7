"""Arrow rows become messages: each column's piece of the properties, and the error for each row that no broker would accept."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from skyrocket.protocol.message.properties import decode_properties
from skyrocket.spark.errors import ColumnError
from skyrocket.spark.options.sink_options import sink_options
from skyrocket.spark.sink.rows import RowReader, SinkRows

MAP = pa.map_(pa.string(), pa.string())
TIME = pa.timestamp("us", "UTC")


def read(columns: dict[str, pa.Array | list], **options: str) -> SinkRows:
    """Read rows with these columns, and with bodies if there are none. An empty `topic` leaves the option out."""
    columns = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    count = len(next(iter(columns.values()))) if columns else 1
    columns.setdefault("body", pa.array([b"x"] * count, pa.binary()))
    batch = pa.record_batch(columns)
    given = {"nameserver": "127.0.0.1:9876", "topic": "t", **options}
    settings = sink_options({name: text for name, text in given.items() if text})
    places = {name: at for at, name in enumerate(batch.schema.names)}
    return RowReader(places, settings).read(batch, [f"ID{number}" for number in range(count)])


def properties(rows: SinkRows) -> list[dict[str, str]]:
    return [decode_properties(text) for text in rows.properties]


def own(rows: SinkRows) -> list[dict[str, str]]:
    """Return the properties, without those that every message has."""
    return [{name: text for name, text in each.items() if name not in ("UNIQ_KEY", "WAIT")} for each in properties(rows)]


def test_row_with_only_a_body():
    rows = read({"body": pa.array([b"one", b"two"])})
    assert rows.bodies == [b"one", b"two"]
    assert rows.topics == ["t", "t"]
    assert properties(rows) == [{"UNIQ_KEY": "ID0", "WAIT": "true"}, {"UNIQ_KEY": "ID1", "WAIT": "true"}]
    assert (rows.sharding_keys, rows.delayed) == (None, None)


def test_string_body_is_sent_as_utf_8():
    assert read({"body": ["häuser", "犬"]}).bodies == ["häuser".encode(), "犬".encode()]


def test_null_and_blank_tags_keys_and_sharding_keys_are_left_out():
    rows = read({"tags": ["a", None, ""], "keys": ["k1 k2", None, "k3"], "shardingKey": [None, "s", " "]})
    assert own(rows) == [{"TAGS": "a", "KEYS": "k1 k2"}, {"__SHARDINGKEY": "s"}, {"KEYS": "k3"}]
    assert rows.sharding_keys == [None, "s", None]


def test_keys_may_be_an_array():
    rows = read({"keys": pa.array([["a", "b"], [], None, ["c"]], pa.list_(pa.string()))})
    assert own(rows) == [{"KEYS": "a b"}, {}, {}, {"KEYS": "c"}]


def test_properties_come_from_a_map():
    rows = read({"properties": pa.array([[("a", "1"), ("b", "2")], None, [], [("c", "ü")]], MAP)})
    assert own(rows) == [{"a": "1", "b": "2"}, {}, {}, {"c": "ü"}]


def test_slice_of_a_batch_has_only_its_own_rows():
    whole = pa.record_batch(
        {
            "body": pa.array([b"0", b"1", b"2"]),
            "properties": pa.array([[("a", "0")], [("a", "1")], [("a", "2")]], MAP),
            "keys": pa.array([["k0"], ["k1"], ["k2"]], pa.list_(pa.string())),
        }
    )
    settings = sink_options({"nameserver": "127.0.0.1:9876", "topic": "t"})
    rows = RowReader({"body": 0, "properties": 1, "keys": 2}, settings).read(whole.slice(1, 2), ["A", "B"])
    assert rows.bodies == [b"1", b"2"]
    assert own(rows) == [{"a": "1", "KEYS": "k1"}, {"a": "2", "KEYS": "k2"}]


def test_option_topic_overrides_the_column_as_in_kafkas_sink():
    assert read({"topic": ["a", None, "b"]}).topics == ["t", "t", "t"]


def test_without_the_option_each_row_goes_to_its_own_topic():
    assert read({"topic": ["a", "b", "a"]}, topic="").topics == ["a", "b", "a"]


def test_namespace_is_added_to_topics_and_properties():
    assert read({"topic": ["a", "b"]}, topic="", namespace="shop").topics == ["shop%a", "shop%b"]
    rows = read({}, namespace="shop")
    assert rows.topics == ["shop%t"]
    assert own(rows)[0] == {"INSTANCE_ID": "shop"}


def test_staged_rows_are_half_messages_of_the_group():
    rows = read({}, delivery="exactly-once", group="g", namespace="shop")
    assert own(rows) == [{"TRAN_MSG": "true", "PGROUP": "shop%g", "INSTANCE_ID": "shop"}]


def test_each_kind_of_delay_and_rows_without_delay():
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    rows = read(
        {
            "delayLevel": pa.array([3, None, None, 0], pa.int32()),
            "delayMs": pa.array([None, 1500, None, 0], pa.int64()),
            "deliverAt": pa.array([None, None, moment, None], TIME),
        }
    )
    at_ms = int(moment.timestamp() * 1000)
    assert own(rows) == [{"DELAY": "3"}, {"TIMER_DELAY_MS": "1500"}, {"TIMER_DELIVER_MS": str(at_ms)}, {}]
    assert rows.delayed == [True, True, True, False]


def test_deliver_at_may_be_milliseconds():
    assert own(read({"deliverAt": pa.array([1_777_777_777_777], pa.int64())})) == [{"TIMER_DELIVER_MS": "1777777777777"}]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"body": pa.array([b"x", None])}, "Column 'body' is null in a row"),
        ({"body": pa.array([b"x", b""])}, "Column 'body' is empty in a row"),
        (
            {"body": pa.array([b"x" * 5_000_000])},
            "Column 'body' has 5000000 bytes in a row. Option 'maxBodyBytes' allows 4194304.",
        ),
        ({"topic": ["a b"]}, "Column 'topic' is 'a b' in a row: 'a b' is not a valid topic name"),
        ({"topic": ["SCHEDULE_TOPIC_XXXX"]}, "Column 'topic' is 'SCHEDULE_TOPIC_XXXX' in a row: Topic"),
        (
            {"tags": ["ok", "a\x01b"]},
            r"Column 'tags' has 'a\x01b' in a row. It must not contain 0x01 or 0x02, which separate properties.",
        ),
        ({"keys": ["a\x02"]}, r"Column 'keys' has 'a\x02' in a row. It must not contain 0x01 or 0x02"),
        ({"keys": pa.array([["a b"]])}, "Column 'keys' has the key 'a b'. A key must not be empty or contain spaces."),
        ({"keys": pa.array([[""]])}, "Column 'keys' has the key ''. A key must not be empty or contain spaces."),
        ({"keys": pa.array([["a", None]])}, "Column 'keys' has a null in the list of a row."),
        ({"shardingKey": ["\x01"]}, r"Column 'shardingKey' has '\x01' in a row. It must not contain 0x01 or 0x02"),
        ({"properties": pa.array([[("UNIQ_KEY", "x")]], MAP)}, "Column 'properties' has 'UNIQ_KEY', which RocketMQ reserves"),
        ({"properties": pa.array([[("DELAY", "3")]], MAP)}, "Column 'properties' has 'DELAY', which RocketMQ reserves"),
        ({"properties": pa.array([[("a", None)]], MAP)}, "Column 'properties' has a null value for 'a' in a row."),
        ({"properties": pa.array([[("a", " ")]], MAP)}, "Column 'properties' has an empty value, which consumers would drop."),
        ({"properties": pa.array([[("", "x")]], MAP)}, "Column 'properties' has a property without a name."),
        ({"properties": pa.array([[("a\x01", "x")]], MAP)}, r"Column 'properties' has 'a\x01' in a row. It must not contain"),
        ({"properties": pa.array([[("a", "x\x02")]], MAP)}, r"Column 'properties' has 'x\x02' in a row. It must not contain"),
        ({"properties": pa.array([[("a", "x" * 33_000)]], MAP)}, "Columns 'properties' have 330"),
        ({"delayLevel": pa.array([-1])}, "Column 'delayLevel' is -1 in a row. A delay level is at least 1"),
        ({"delayMs": pa.array([-5])}, "Column 'delayMs' is -5 in a row. It must be at least 0."),
        ({"delayLevel": pa.array([1]), "delayMs": pa.array([5])}, "Column 'delayMs' is set in a row that has another delay"),
    ],
)
def test_invalid_row_is_refused_with_the_name_of_its_column(columns: dict, sentence: str):
    with pytest.raises(ColumnError) as caught:
        read(columns, topic="" if "topic" in columns else "t")
    assert str(caught.value).startswith(sentence)


def test_row_without_a_topic_needs_the_option():
    settings = sink_options({"nameserver": "127.0.0.1:9876"})
    batch = pa.record_batch({"body": pa.array([b"x"]), "topic": pa.array([None], pa.string())})
    with pytest.raises(ColumnError, match=r"^Column 'topic' is null in a row, and option 'topic' is not set\."):
        RowReader({"body": 0, "topic": 1}, settings).read(batch, ["A"])


def test_properties_of_transactions_are_refused_with_exactly_once():
    with pytest.raises(ColumnError, match="CHECK_IMMUNITY_TIME_IN_SECONDS"):
        read({"properties": pa.array([[("CHECK_IMMUNITY_TIME_IN_SECONDS", "60")]], MAP)}, delivery="exactly-once")

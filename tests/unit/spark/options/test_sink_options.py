"""The sink's options, and the sentence about each that cannot be meant."""

from __future__ import annotations

import pytest

from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.sink_options import SINK, sink_options

NAMESERVER = {"nameserver": "127.0.0.1:9876"}


def test_a_nameserver_is_enough_and_the_rest_has_defaults():
    options = sink_options(NAMESERVER)
    assert (options.topic, options.exactly_once, options.group) == (None, False, "SKYROCKET_SPARK_SINK")
    assert (options.batch_bytes, options.compression, options.retries) == (524_288, "zlib", 5)


def test_the_defaults_of_the_table_are_those_of_the_value():
    values = {row.name: row.default for row in SINK}
    options = sink_options(NAMESERVER)
    assert options.batch_messages == values["batchMessages"]
    assert options.in_flight_max == values["maxInFlight"]
    assert options.settle_ms == values["settleTime"]
    assert options.send_ms == values["sendTimeout"]
    assert options.ledger_topic == values["ledgerTopic"]


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("topic", "orders", "topic", "orders"),
        ("delivery", "Exactly-Once", "exactly_once", True),
        ("group", "billing", "group", "billing"),
        ("batchBytes", "65536", "batch_bytes", 65_536),
        ("batchMessages", "10", "batch_messages", 10),
        ("compression", "none", "compression", None),
        ("compression", "lz4", "compression", "lz4"),
        ("compressOver", "100", "compress_over_bytes", 100),
        ("maxBodyBytes", "1000", "body_bytes_max", 1_000),
        ("sendTimeout", "2s", "send_ms", 2_000),
        ("retries", "0", "retries", 0),
        ("maxInFlight", "7", "in_flight_max", 7),
        ("ledgerTopic", "book", "ledger_topic", "book"),
        ("settleTime", "1s", "settle_ms", 1_000),
    ],
)
def test_each_option_is_read(name: str, text: str, field: str, value: object):
    assert getattr(sink_options({**NAMESERVER, name: text}), field) == value


def test_a_write_id_is_a_text():
    options = sink_options({**NAMESERVER, "delivery": "exactly-once", "writeId": "orders of 1 May"})
    assert options.write_id == "orders of 1 May"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topics": "a"}, "Option 'topics' is unknown to the sink rocketmq; did you mean 'topic'?"),
        ({"subscribe": "a"}, "Option 'subscribe' is unknown to the sink rocketmq; there are: topic, delivery, "),
        ({"topic": "a b"}, "Option 'topic' is 'a b': 'a b' is not a valid topic name. Use letters, "),
        ({"group": "g" * 200}, "Option 'group' is 'g"),
        ({"delivery": "twice"}, "Option 'delivery' is 'twice', but it has to be at-least-once or exactly-once."),
        ({"batchBytes": "5000000"}, "Option 'batchBytes' is '5000000', but it has to be a whole number of at least 1024 and at "),
        ({"compression": "gzip"}, "Option 'compression' is 'gzip', but it has to be none or zlib or lz4 or zstd."),
        ({"sendTimeout": "soon"}, "Option 'sendTimeout' is 'soon', but it has to be a duration such as 500ms, 30s or 15m."),
        ({"writeId": "w"}, "Option 'writeId' means something with delivery=exactly-once only."),
        (
            {"writeId": "w\x01", "delivery": "exactly-once"},
            "Option 'writeId' is 'w\x01', but it has to be a text of at most 200 printable characters.",
        ),
        ({"secretKey": "s"}, "Options 'accessKey' and 'secretKey' belong together; one of them is missing."),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(given: dict[str, str], sentence: str):
    with pytest.raises(OptionError) as told:
        sink_options({**NAMESERVER, **given})
    assert str(told.value).startswith(sentence)

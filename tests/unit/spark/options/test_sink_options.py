"""The sink's options, and the error for each invalid value."""

from __future__ import annotations

import pytest

from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.sink_options import SINK, sink_options

NAMESERVER = {"nameserver": "127.0.0.1:9876"}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESRV_ADDR", "ROCKETMQ_NAMESRV_DOMAIN"):
        monkeypatch.delenv(name, raising=False)


def test_nameservers_are_found_by_option_or_environment(monkeypatch: pytest.MonkeyPatch):
    def found(**options: str) -> tuple[tuple[str, ...], str]:
        cluster = sink_options(options).cluster
        return cluster.client_options().nameservers, cluster.client_options().address_server

    assert found(nameserver="a:1;b:2") == (("a:1", "b:2"), "")
    assert found(addressServer="http://names:8080/rocketmq/nsaddr") == ((), "http://names:8080/rocketmq/nsaddr")
    monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", "http://domain/")
    assert found() == ((), "http://domain/")
    assert found(nameserver="a:1") == (("a:1",), "")
    monkeypatch.setenv("NAMESRV_ADDR", "c:3;d:4")
    assert found() == (("c:3", "d:4"), "")
    assert found(addressServer="http://names/") == ((), "http://names/")
    assert found(nameserver="a:1") == (("a:1",), "")


def test_nameserver_and_address_server_are_not_given_together():
    with pytest.raises(OptionError, match="Options 'nameserver' and 'addressServer' are both given"):
        sink_options({"nameserver": "a:1", "addressServer": "http://names/"})


def test_without_any_nameserver_the_error_names_the_ways_to_give_one():
    with pytest.raises(OptionError, match="Option 'nameserver': No nameserver is given"):
        sink_options({})


def test_only_the_nameserver_is_required():
    options = sink_options(NAMESERVER)
    assert (options.topic, options.exactly_once, options.group) == (None, False, "SKYROCKET_SPARK_SINK")
    assert (options.batch_bytes, options.compression, options.retries) == (524_288, "zlib", 5)


def test_defaults_of_the_table_and_of_the_value_are_equal():
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
def test_each_option_is_parsed(name: str, text: str, field: str, value: object):
    assert getattr(sink_options({**NAMESERVER, name: text}), field) == value


def test_write_id_may_be_any_printable_text():
    options = sink_options({**NAMESERVER, "delivery": "exactly-once", "writeId": "orders of 1 May"})
    assert options.write_id == "orders of 1 May"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topics": "a"}, "Option 'topics' does not exist for the sink rocketmq. Did you mean 'topic'?"),
        ({"subscribe": "a"}, "Option 'subscribe' does not exist for the sink rocketmq. Its options are: topic, delivery, "),
        ({"topic": "a b"}, "Option 'topic' is 'a b': 'a b' is not a valid topic name"),
        ({"group": "g" * 200}, "Option 'group' is 'g"),
        ({"delivery": "twice"}, "Option 'delivery' is 'twice'. It must be at-least-once or exactly-once."),
        ({"batchBytes": "5000000"}, "Option 'batchBytes' is '5000000'. It must be a whole number of at least 1024 and at "),
        ({"compression": "gzip"}, "Option 'compression' is 'gzip'. It must be none or zlib or lz4 or zstd."),
        ({"sendTimeout": "soon"}, "Option 'sendTimeout' is 'soon'. It must be a duration such as 500ms, 30s or 15m."),
        ({"writeId": "w"}, "Option 'writeId' needs delivery=exactly-once. Set option 'delivery', or leave 'writeId' out."),
        (
            {"writeId": "w\x01", "delivery": "exactly-once"},
            "Option 'writeId' is 'w\x01'. It must be a text of at most 200 printable characters.",
        ),
        ({"secretKey": "s"}, "Options 'accessKey' and 'secretKey' belong together, but one of them is missing. Give both."),
    ],
)
def test_invalid_option_is_refused_with_a_clear_message(given: dict[str, str], sentence: str):
    with pytest.raises(OptionError) as caught:
        sink_options({**NAMESERVER, **given})
    assert str(caught.value).startswith(sentence)

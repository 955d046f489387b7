"""Changes of topics in the log: which of them a new leader's table does not have."""

from __future__ import annotations

import pytest

from skyrocket.broker.dledger.marker import make_marker
from skyrocket.broker.dledger.topic_records import make_topic_records, newer_changes
from skyrocket.protocol.bodies import DataVersion, TopicConfig
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.system_names import SELF_TEST_TOPIC
from skyrocket.store.message import AppendRequest

HOST = bytes(8)
ORDERS = TopicConfig(topic_name="orders", read_queue_nums=3, attributes={"a": "b"})


def stored(request: AppendRequest) -> memoryview:
    return memoryview(bytes(request.record))


def test_the_last_newer_change_of_each_topic_is_found():
    version = DataVersion(timestamp=500, counter=5)
    requests = [
        make_marker("n1", 2, 1, HOST),
        *make_topic_records({"old": ORDERS}, version, 1, HOST),
        *make_topic_records({"orders": None, "gone": ORDERS}, DataVersion(timestamp=600, counter=6), 1, HOST),
        *make_topic_records({"orders": ORDERS, "gone": None}, DataVersion(timestamp=601, counter=7), 1, HOST),
        *make_topic_records({"fork": ORDERS}, DataVersion(timestamp=550, counter=4), 1, HOST),
    ]
    found = newer_changes(map(stored, requests), version, report=pytest.fail)
    assert found == {"orders": ORDERS, "gone": None, "fork": ORDERS}


def test_what_cannot_be_read_is_reported_and_skipped():
    said: list[str] = []
    body = b'{"name": '
    record = encode_record(Record(topic=SELF_TEST_TOPIC, body=body, born_host=HOST, store_host=HOST))
    assert newer_changes([memoryview(record)], DataVersion(), report=said.append) == {}
    (sentence,) = said
    assert sentence.startswith("A change of a topic in the log cannot be read: ")

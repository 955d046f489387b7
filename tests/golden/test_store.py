"""The store that Apache's broker wrote is read correctly, and not changed.

The expected messages come from a minimal parser in this file, and from what the recorded clients sent.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.protocol.message.record import Record, decode_record, encode_record
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineQueueRange, OfflineStore, message_id, properties_of
from skyrocket.store.offline.verify import verify
from tests.support.stores.sample_stores import GOLDEN_CONFIG, fingerprint, golden_store

MESSAGES = 64
LOG_END = 18_571
EVER = 2**63 - 1

QUEUES = {
    ("%DLQ%GoldenGroupJ", 0): 1,
    ("%RETRY%GoldenGroupJ", 0): 2,
    ("%RETRY%GoldenGroupR", 0): 1,
    ("GoldenOrderJ", 0): 3,
    ("GoldenOrderJ", 1): 3,
    ("GoldenOrderR", 0): 3,
    ("GoldenOrderR", 1): 3,
    ("GoldenTopicJ", 0): 5,
    ("GoldenTopicJ", 1): 7,
    ("GoldenTopicR", 0): 7,
    ("GoldenTopicR", 1): 5,
    ("GoldenTxJ", 0): 2,
    ("GoldenTxR", 0): 2,
    ("RMQ_SYS_TRANS_HALF_TOPIC", 0): 8,
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0): 5,
    ("SCHEDULE_TOPIC_XXXX", 0): 2,
    ("SCHEDULE_TOPIC_XXXX", 2): 2,
    ("SCHEDULE_TOPIC_XXXX", 3): 1,
    ("rmq_sys_wheel_timer", 0): 2,
}


class Plain(NamedTuple):
    """A message, parsed with struct alone."""

    offset: int
    data: bytes
    queue_id: int
    queue_offset: int
    store_timestamp: int
    body: bytes
    topic: str
    properties: dict[str, str]


def plain_messages(log: bytes) -> Iterator[Plain]:
    at = 0
    while True:
        size, magic = struct.unpack_from(">iI", log, at)
        if size == 0:
            return
        assert magic == 0xDAA320A7
        data = log[at : at + size]
        crc, queue_id = struct.unpack_from(">ii", data, 8)
        queue_offset, offset = struct.unpack_from(">qq", data, 20)
        assert (offset, struct.unpack_from(">i", data, 36)[0] & 0x30) == (at, 0)  # all hosts are IPv4
        (stored,) = struct.unpack_from(">q", data, 56)
        (body_bytes,) = struct.unpack_from(">i", data, 84)
        body, rest = data[88 : 88 + body_bytes], data[88 + body_bytes :]
        assert zlib.crc32(body) & 0x7FFFFFFF == crc
        topic, properties = rest[1 : 1 + rest[0]].decode(), rest[3 + rest[0] :].decode()
        pairs = dict(pair.split("\x01") for pair in properties.split("\x02") if pair)
        yield Plain(at, data, queue_id, queue_offset, stored, body, topic, pairs)
        at += size


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_store(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def messages(directory: Path) -> list[Plain]:
    return list(plain_messages((directory / "commitlog" / f"{0:020d}").read_bytes()))


@pytest.fixture(scope="module")
def offline(directory: Path) -> Iterator[OfflineStore]:
    with OfflineStore(directory) as store:
        yield store


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    store = MessageStore(golden_store(tmp_path_factory.mktemp("opened")), GOLDEN_CONFIG)
    store.open()
    yield store
    store.close()


def is_as_expected(record: Record, expected: Plain) -> bool:
    return (
        record.physical_offset,
        record.queue_id,
        record.queue_offset,
        record.store_timestamp,
        record.body,
        record.topic,
        properties_of(record),
    ) == (
        expected.offset,
        expected.queue_id,
        expected.queue_offset,
        expected.store_timestamp,
        expected.body,
        expected.topic,
        expected.properties,
    )


def keys_of(message: Plain) -> list[str]:
    unique = [message.properties["UNIQ_KEY"]] if "UNIQ_KEY" in message.properties else []
    return unique + message.properties.get("KEYS", "").split()


def test_plain_parser_finds_the_recorded_messages(messages: list[Plain]):
    assert len(messages) == MESSAGES
    assert messages[-1].offset + len(messages[-1].data) == LOG_END
    first = messages[0]
    assert (first.topic, first.queue_id, first.queue_offset, first.body) == ("GoldenTopicJ", 0, 0, b"hello 0")
    assert first.store_timestamp == 1_794_725_517_494
    assert first.properties["KEYS"] == "key-0"


def test_every_message_is_read_without_a_broker(offline: OfflineStore, messages: list[Plain]):
    found = list(offline.records())
    assert [(each.offset, each.size) for each in found] == [(each.offset, len(each.data)) for each in messages]
    assert all(is_as_expected(each.record, expected) for each, expected in zip(found, messages, strict=True))


def test_every_record_is_encoded_to_its_original_bytes(offline: OfflineStore, messages: list[Plain]):
    assert [encode_record(found.record) for found in offline.records()] == [message.data for message in messages]


def test_every_queue_has_its_messages_in_order(offline: OfflineStore, messages: list[Plain]):
    assert offline.queues() == [OfflineQueueRange(topic, queue, 0, count) for (topic, queue), count in sorted(QUEUES.items())]
    for topic, queue in QUEUES:
        expected = [m for m in messages if (m.topic, m.queue_id) == (topic, queue)]
        found = list(offline.queue_records(topic, queue))
        assert [each.offset for each in found] == [message.offset for message in expected]
        assert [each.record.queue_offset for each in found] == list(range(len(expected)))


def test_every_key_finds_its_messages_and_no_others(offline: OfflineStore, messages: list[Plain]):
    asked = {(message.topic, key) for message in messages for key in keys_of(message)}
    assert len(asked) > 50
    for topic, key in asked:
        expected = [m.offset for m in messages if m.topic == topic and key in keys_of(m)]
        assert [found.offset for found in offline.query(topic, key)] == expected[::-1]
    assert list(offline.query("GoldenTopicJ", "no-such-key")) == []


def test_message_without_unique_key_has_its_offset_id(offline: OfflineStore):
    found = next(each for each in offline.records() if each.record.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    assert message_id(found.record, properties_of(found.record)) == f"7F00000100002A9F{found.offset:016X}"


def test_verify_finds_nothing(directory: Path):
    assert list(verify(directory)) == []


def test_the_message_store_serves_every_queue(opened: MessageStore, messages: list[Plain]):
    assert opened.log.end == LOG_END
    for (topic, queue), count in QUEUES.items():
        expected = [m.data for m in messages if (m.topic, m.queue_id) == (topic, queue)]
        served = opened.reading.messages(topic, queue, 0, 100)
        assert (served.min_offset, served.max_offset, served.next_offset) == (0, count, count)
        assert [bytes(view) for view in served.records] == expected


def test_the_store_finds_every_message_by_place_and_key(opened: MessageStore, messages: list[Plain]):
    for message in messages:
        record = opened.reading.record_at(message.offset)
        assert record is not None
        assert is_as_expected(record, message)
        for key in keys_of(message):
            found = [bytes(view) for view in opened.reading.query(message.topic, key, 0, EVER, 100)]
            assert message.data in found
            assert all(decode_record(data).topic == message.topic for data in found)


def test_the_store_finds_messages_by_time(opened: MessageStore, messages: list[Plain]):
    for message in messages:
        offset = opened.reading.offset_by_time(message.topic, message.queue_id, message.store_timestamp)
        same = [m for m in messages if (m.topic, m.queue_id) == (message.topic, message.queue_id)]
        assert offset == min(m.queue_offset for m in same if m.store_timestamp >= message.store_timestamp)


def test_opening_and_closing_changes_no_byte_of_log_queues_and_index(tmp_path: Path):
    golden_store(tmp_path)
    before = contents(tmp_path)
    for _ in range(2):
        store = MessageStore(tmp_path, GOLDEN_CONFIG)
        recovered = store.open()
        assert recovered.sentences() == []
        store.close()
        assert contents(tmp_path) == before
    assert list(verify(tmp_path)) == []


def contents(directory: Path) -> dict[str, tuple[int, str]]:
    files = fingerprint(directory, ("commitlog", "consumequeue", "index"))
    return {name: (size, content) for name, (size, _, content) in files.items() if content}

"""A topic that we deleted and created again starts clean at Apache's broker too, and again at ours when the store comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import KEYS, UNIQUE_KEY, encode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.store.config import StoreConfig
from skyrocket.store.config_files import TOPICS, ConfigFiles
from skyrocket.store.files import Disk
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import ENTRY_BYTES
from tests.support.apache.cluster import ApacheCluster

pytestmark = pytest.mark.interop

CONFIG = StoreConfig(segment_bytes=64 * 1024, queue_entries_per_file=300, index_slots=100, index_entries=400)
SIZES = {
    "mappedFileSizeCommitLog": CONFIG.segment_bytes,
    "mappedFileSizeConsumeQueue": CONFIG.queue_entries_per_file * ENTRY_BYTES,
    "maxHashSlotNum": CONFIG.index_slots,
    "maxIndexNum": CONFIG.index_entries,
}
HOST = pack_host("127.0.0.1", 10911)


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as cluster:
        yield cluster


def append(store: MessageStore, topic: str, *bodies: bytes) -> None:
    for body in bodies:
        properties = encode_properties({UNIQUE_KEY: f"ID{body.decode()}", KEYS: body.decode()})
        record = Record(topic, body + bytes(300), properties=properties, born_host=HOST, store_host=HOST)
        store.append([append_request_of(record)], time.time_ns() // 1_000_000)


def bodies_at_apache(apache: ApacheCluster, topic: str) -> list[bytes]:
    return [bytes.fromhex(line[-2]).rstrip(b"\0") for line in apache.client.ask("consume", topic.encode().hex())]


def bodies_of_ours(store: MessageStore, topic: str) -> list[bytes]:
    return [decode_record(view).body.rstrip(b"\0") for view in store.reading.messages(topic, 0, 0, 1_000).records]


def put_topics(directory: Path, *topics: str) -> None:
    table = {topic: TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1) for topic in topics}
    ConfigFiles(Disk(), str(directory / "config")).save(TOPICS, TopicConfigSerializeWrapper(topic_config_table=table))


@pytest.mark.parametrize("killed", [False, True])
def test_a_topic_that_was_created_again_has_only_its_new_messages_at_either_broker(
    apache: ApacheCluster, tmp_path: Path, killed: bool
):
    others = [b"other%d" % number for number in range(300)]
    new = [b"new%d" % number for number in range(5)]
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    append(store, "Orders", *[b"old%d" % number for number in range(300)])
    append(store, "Others", *others[:200])
    store.flush()
    store.checkpoint()
    store.delete_topic("Orders")()
    append(store, "Orders", *new[:4])
    append(store, "Others", *others[200:])
    put_topics(tmp_path, "Orders", "Others")
    if killed:
        store._abandon()  # as after a kill: nothing is flushed or tidied up, and the lock is free
    else:
        store.close()

    broker = apache.broker(tmp_path, SIZES)
    assert bodies_at_apache(apache, "Orders") == new[:4]
    assert bodies_at_apache(apache, "Others") == others
    broker.kill() if killed else broker.stop()

    again = MessageStore(tmp_path, CONFIG)
    again.open()
    append(again, "Orders", new[4])
    assert bodies_of_ours(again, "Orders") == new
    assert bodies_of_ours(again, "Others") == others
    again.close()


def test_queues_that_apache_writes_for_a_topic_that_we_deleted_before_a_kill_are_gone_at_our_next_start(
    apache: ApacheCluster, tmp_path: Path
):
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    append(store, "Orders", *[b"old%d" % number for number in range(20)])
    append(store, "Others", b"other")
    store.delete_topic("Orders")()
    put_topics(tmp_path, "Orders", "Others")
    store._abandon()

    broker = apache.broker(tmp_path, SIZES)
    assert bodies_at_apache(apache, "Others") == [b"other"]
    broker.stop()

    again = MessageStore(tmp_path, CONFIG)
    again.open()
    assert bodies_of_ours(again, "Orders") == []
    append(again, "Orders", b"new")
    assert bodies_of_ours(again, "Orders")[-1:] == [b"new"]
    again.close()

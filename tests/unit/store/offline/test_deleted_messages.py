"""Messages that were deleted with their topic are shown by no offline reader, though the log still has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.columnar.scan import scan
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineStore
from tests.support.stores.store_messages import START_MS, a_message


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = MessageStore(tmp_path / "store")
    store.open()
    for topic, body in (("gone", b"old"), ("kept", b"1"), ("again", b"old"), ("kept", b"2")):
        store.append([a_message(topic=topic, body=body)], START_MS)
    for topic in ("gone", "again"):
        store.delete_topic(topic)()
    store.append([a_message(topic="again", body=b"new"), a_message(topic="kept", body=b"3")], START_MS + 1_000)
    store.close()
    return tmp_path / "store"


LEFT = [("kept", b"1"), ("kept", b"2"), ("again", b"new"), ("kept", b"3")]


def test_all_messages_are_read_without_deleted_ones(directory: Path):
    with OfflineStore(directory) as store:
        assert [(found.record.topic, found.record.body) for found in store.records()] == LEFT
        assert [found.record.body for found in store.records_since(START_MS + 1)] == [b"new", b"3"]


def test_columns_have_no_deleted_messages(directory: Path):
    with OfflineStore(directory) as store:
        rows = [row for batch in scan(store, columns=("topic", "body")) for row in batch.to_pylist()]
        assert [(row["topic"], row["body"]) for row in rows] == LEFT
        of_topic = [row for batch in scan(store, columns=("body",), topic="again") for row in batch.to_pylist()]
        assert of_topic == [{"body": b"new"}]
        assert not list(scan(store, columns=("body",), topic="gone"))

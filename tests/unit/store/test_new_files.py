"""The first message of a queue, an index or a segment waits for no sync of the disk. The next checkpoint does the syncs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.store.message_store import MessageStore
from tests.support.stores.store_messages import SMALL, START_MS, a_message


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the paths of synced files and directories."""
    paths: list[str] = []

    def record(sync):
        def record_and_sync(descriptor: int) -> None:
            paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            sync(descriptor)

        return record_and_sync

    monkeypatch.setattr(os, "fsync", record(os.fsync))
    monkeypatch.setattr(os, "fdatasync", record(os.fdatasync))
    return paths


def test_the_first_message_of_a_queue_syncs_nothing_and_the_checkpoint_all_that_is_new(tmp_path: Path, synced: list[str]):
    store = MessageStore(tmp_path / "store", replace(SMALL, segment_bytes=64 * 1024))
    store.open()
    store.append([a_message("first", keys="k")], START_MS)
    synced.clear()
    for queue_id in range(10):
        store.append([a_message("orders", queue_id, keys=f"k{queue_id}")], START_MS)
    assert synced == []
    store.flush()
    store.checkpoint()
    queues = tmp_path / "store/consumequeue"
    for queue_id in range(10):
        assert {str(queues / f"orders/{queue_id}"), str(queues / f"orders/{queue_id}/00000000000000000000")} <= set(synced)
    assert {str(queues), str(queues / "orders")} <= set(synced)
    store.close()


def test_a_new_index_file_syncs_nothing_and_the_checkpoint_all_that_is_new(tmp_path: Path, synced: list[str]):
    store = MessageStore(tmp_path / "store", replace(SMALL, segment_bytes=64 * 1024))
    store.open()
    store.append([a_message(keys="k")], START_MS)
    store.flush()
    store.checkpoint()
    synced.clear()
    for number in range(100):
        store.append([a_message(keys=f"k{number}")], START_MS + number)
    assert synced == []
    store.flush()
    store.checkpoint()
    index = tmp_path / "store/index"
    assert len(list(index.iterdir())) > 2
    assert {str(index), *map(str, sorted(index.iterdir())[1:])} <= set(synced)
    store.close()

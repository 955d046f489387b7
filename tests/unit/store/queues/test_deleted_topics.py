"""A deleted topic stays deleted, and one that is created again starts clean, whatever happens to the broker and its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from skyrocket.store.message_store import MessageStore
from skyrocket.store.recovery.recovery_result import RecoveryResult
from tests.support.stores.simulated_disk import PowerCut, SimulatedDisk
from tests.support.stores.store_messages import (
    FOREVER_MS,
    ROOT,
    SMALL,
    START_MS,
    a_message,
    an_open_store,
    expire_oldest,
    numbered,
    numbers,
    read_queue,
)

DELETED = f"{ROOT}/consumequeue.deleted"


def a_store(disk: SimulatedDisk, count: int = 100) -> MessageStore:
    """Return a store with messages of two topics on several segments, all of them behind a checkpoint."""
    store = an_open_store(disk)
    for first in range(0, count, 10):
        store.append(numbered(10, "orders", first=first), START_MS + first)
        store.append(numbered(10, "others", first=first), START_MS + first)
    store.flush()
    store.checkpoint()
    return store


def opened(disk: SimulatedDisk) -> tuple[MessageStore, RecoveryResult]:
    store = MessageStore(ROOT, SMALL, files=disk)
    return store, store.open()


def bodies_by_key(store: MessageStore, topic: str, key: str) -> int:
    return len(store.reading.query(topic, key, 0, FOREVER_MS, 10))


def test_a_kill_right_after_a_deletion_neither_brings_the_topic_back_nor_reads_the_whole_log():
    store = a_store(disk := SimulatedDisk())
    store.delete_topic("orders")  # killed before its job makes it durable
    again, recovered = opened(disk.kill())
    assert recovered.messages == 0
    assert again.queues.get("orders", 0) is None
    assert numbers(read_queue(again, "others")) == list(range(100))
    assert again.append([a_message("orders")], START_MS)[0].queue_offset == 0


def test_messages_behind_the_checkpoint_do_not_bring_the_topic_back():
    store = a_store(disk := SimulatedDisk())
    store.append(numbered(5, "orders", first=100), START_MS)
    store.delete_topic("orders")()
    again, recovered = opened(disk.kill())
    assert recovered.messages == 5
    assert again.queues.get("orders", 0) is None


def test_a_topic_whose_queues_are_in_memory_only_is_deleted_without_a_file_for_each():
    store = an_open_store(disk := SimulatedDisk())
    store.append([a_message("orders", queue_id) for queue_id in range(50)], START_MS)
    store.delete_topic("orders")
    [position] = disk.names(DELETED)
    assert len(disk.names(f"{DELETED}/{position}/queues/orders")) == 1
    again, recovered = opened(disk.kill())
    assert recovered.messages == 50
    assert again.queues.get("orders", 0) is None
    assert again.append([a_message("orders")], START_MS)[0].queue_offset == 0


def lose_index(disk: SimulatedDisk) -> None:
    disk.remove(f"{ROOT}/index")


def lose_queues(disk: SimulatedDisk) -> None:
    disk.remove(f"{ROOT}/consumequeue")


def lose_checkpoint(disk: SimulatedDisk) -> None:
    disk.remove(f"{ROOT}/checkpoint")


def lose_nothing(_disk: SimulatedDisk) -> None: ...


@pytest.mark.parametrize("lose", [lose_index, lose_queues, lose_checkpoint, lose_nothing])
@pytest.mark.parametrize("killed", [True, False])
def test_a_topic_that_was_deleted_and_created_again_has_only_its_new_messages(
    lose: Callable[[SimulatedDisk], None], killed: bool
):
    store = a_store(disk := SimulatedDisk())
    store.delete_topic("orders")()
    store.append(numbered(3, "orders", first=500), START_MS + 1_000)
    if killed:
        disk = disk.kill()
    else:
        store.close()
    lose(disk)
    again, _ = opened(disk)
    assert numbers(read_queue(again, "orders")) == [500, 501, 502]
    assert numbers(read_queue(again, "others")) == list(range(100))
    assert (bodies_by_key(again, "orders", "key1"), bodies_by_key(again, "orders", "key501")) == (0, 1)
    assert again.append([a_message("orders")], START_MS)[0].queue_offset == 3
    again.close()
    store, recovered = opened(disk)
    assert not recovered.after_crash
    assert len(read_queue(store, "orders")) == 4


def test_a_topic_deleted_many_times_has_the_messages_of_its_last_life():
    store = a_store(disk := SimulatedDisk())
    for life in range(5):
        store.delete_topic("orders")()
        store.append(numbered(2, "orders", first=1_000 * life), START_MS)
    assert len(disk.names(DELETED)) == 5
    store.close()
    lose_index(disk)
    again, _ = opened(disk)
    assert numbers(read_queue(again, "orders")) == [4_000, 4_001]
    marks = [name for name in disk.names(DELETED) if disk.names(f"{DELETED}/{name}/topics")]
    assert len(marks) == 1, "only the last deletion counts"


def test_a_topic_without_messages_is_deleted(tmp_path: Path):
    store = MessageStore(tmp_path / "store", SMALL)
    store.open()
    store.delete_topic("orders")()
    store.append(numbered(2, "orders"), START_MS)
    assert numbers(read_queue(store, "orders")) == [0, 1]
    store.close()


def test_unconfirmed_messages_of_a_deleted_topic_get_no_queue():
    disk = SimulatedDisk()
    store = an_open_store(disk, replace(SMALL, sync_flush=True))
    store.append(numbered(3, "orders"), START_MS)
    store.delete_topic("orders")()
    store.append(numbered(2, "orders", first=7), START_MS)
    store.flush()
    assert numbers(read_queue(store, "orders")) == [7, 8]


def test_a_power_cut_at_any_change_leaves_the_topic_as_it_was_or_deleted():
    for change in range(1, 200):
        store = a_store(disk := SimulatedDisk(), 30)
        disk.cut_power_at(change)
        acknowledged = False
        try:
            job = store.delete_topic("orders")
            job()
            acknowledged = True
            store.append(numbered(1, "orders", first=900), START_MS)
            store.checkpoint()
            store.expired_files.remove_all()
        except PowerCut:
            pass
        finished = not disk.is_off
        again, _ = opened(disk.crash(Random(change)))
        found = numbers(read_queue(again, "orders"))
        if acknowledged:
            assert found in ([], [900]), f"power cut at change {change}"
        else:
            assert found in ([], list(range(30))), f"power cut at change {change}"
        assert numbers(read_queue(again, "others")) == list(range(30))
        if finished:
            return
    raise AssertionError("200 changes were not enough")


def test_messages_that_take_the_place_of_a_lost_tail_are_not_deleted():
    store = a_store(disk := SimulatedDisk(), 30)
    store.append(numbered(20, "orders", first=30), START_MS)
    store.delete_topic("orders")()  # at an end of the log that a power cut takes back
    again, recovered = opened(disk.crash(Never()))
    assert recovered.end < store.log.end
    again.append(numbered(2, "orders", first=70), START_MS)
    again.flush()
    third, _ = opened(disk_of(again).kill())
    assert numbers(read_queue(third, "orders")) == [70, 71]


class Never(Random):
    """Loses every sector that was not synced."""

    def choice(self, seq):  # type: ignore[no-untyped-def]
        return seq[0]


def disk_of(store: MessageStore) -> SimulatedDisk:
    disk = store._files
    assert isinstance(disk, SimulatedDisk)
    return disk


def test_queues_that_another_program_wrote_for_a_deleted_topic_are_removed():
    store = a_store(disk := SimulatedDisk())
    kept = {path: bytes(node.content) for path, node in disk.nodes.items() if "/consumequeue/orders/" in path}
    store.delete_topic("orders")()
    store.close()
    for path, content in kept.items():  # as Apache's recovery may do
        disk.write_file(path, content)
    again, _ = opened(disk)
    assert again.queues.get("orders", 0) is None
    assert again.append([a_message("orders")], START_MS)[0].queue_offset == 0


def test_the_files_go_after_a_checkpoint_and_the_memory_when_the_log_starts_behind_it():
    store = a_store(disk := SimulatedDisk())
    store.delete_topic("orders")()
    (position,) = disk.names(DELETED)
    assert disk.names(f"{DELETED}/{position}") == ["queues", "topics"]
    store.expired_files.remove_all()
    assert disk.names(f"{DELETED}/{position}") == ["queues", "topics"], "the checkpoint on disk still counts them"
    store.checkpoint()
    store.expired_files.remove_all()
    assert disk.names(f"{DELETED}/{position}") == ["topics"]
    store.append(numbered(200, "others", first=100, body_bytes=200), START_MS)
    while store.log.start < int(position):
        expire_oldest(store)
    assert disk.names(DELETED) == []

"""Opening a store after a clean stop, after a crash, and after damage."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest

from skyrocket.protocol.message.record import BLANK_MAGIC, Record, encode_record
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from skyrocket.store.errors import StoreFormatError
from skyrocket.store.message import AppendRequest
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
    bodies,
    numbered,
    numbers,
    read_queue,
)

LOG = f"{ROOT}/commitlog/00000000000000000000"
QUEUE = f"{ROOT}/consumequeue/orders/0"


def a_closed_store(messages: int = 60) -> SimulatedDisk:
    """Return a disk with two queues over three segments."""
    disk = SimulatedDisk()
    store = an_open_store(disk)
    for first in range(0, messages, 6):
        store.append(numbered(6, queue_id=first % 4 // 2, first=first, body_bytes=200), START_MS + first)
    store.close()
    return disk


def a_killed_store(checkpointed: int = 10, more: int = 10, *, is_written: bool = False) -> SimulatedDisk:
    """Return the disk of a store that was killed. With `is_written` everything had been written that is written late."""
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(checkpointed, body_bytes=200), START_MS)
    store.flush()
    store.checkpoint()
    store.append(numbered(more, first=checkpointed, body_bytes=200), START_MS)
    if is_written:
        assert store.write_late()
    return disk.kill()


def opened(disk: SimulatedDisk) -> tuple[MessageStore, RecoveryResult]:
    store = MessageStore(ROOT, SMALL, files=disk)
    return store, store.open()


def everything(store: MessageStore) -> list[int]:
    return sorted(numbers(read_queue(store, "orders", 0)) + numbers(read_queue(store, "orders", 1)))


def place_of(store: MessageStore, queue_offset: int) -> tuple[int, int]:
    queue = store.queues.get("orders", 0)
    assert queue is not None
    entry = queue.entry(queue_offset)
    assert entry is not None
    return entry.physical_offset, entry.size


# --- clean


def test_after_a_clean_stop_nothing_is_read_again():
    disk = a_closed_store()
    before = disk.contents()
    store, recovered = opened(disk)
    assert (recovered.after_crash, recovered.messages, recovered.sentences()) == (False, 0, [])
    assert everything(store) == list(range(60))
    store.close()
    assert disk.contents() == before


def test_the_abort_file_is_there_while_the_store_is_open():
    disk = a_closed_store()
    assert not disk.exists(f"{ROOT}/abort")
    store, _ = opened(disk)
    assert disk.exists(f"{ROOT}/abort")
    store.close()
    assert not disk.exists(f"{ROOT}/abort")


def test_store_of_other_sizes_is_refused_and_not_changed():
    disk = a_closed_store()
    before = disk.contents()
    for config in (replace(SMALL, segment_bytes=16384), replace(SMALL, index_entries=41)):
        with pytest.raises(StoreFormatError):
            an_open_store(disk, config)
        assert disk.contents() == before
    assert everything(an_open_store(disk)) == list(range(60))


# --- queues and index that are gone or wrong


def test_a_queue_directory_that_was_deleted_is_built_again():
    disk = a_closed_store()
    before = disk.contents()
    disk.remove(QUEUE)
    store, _ = opened(disk)
    assert everything(store) == list(range(60))
    store.close()
    assert disk.contents() == before


def test_all_queues_that_were_deleted_are_built_again():
    disk = a_closed_store()
    before = disk.contents()
    disk.remove(f"{ROOT}/consumequeue")
    store, _ = opened(disk)
    assert everything(store) == list(range(60))
    store.close()
    assert disk.contents() == before


@pytest.mark.parametrize("crash", ["at once", "later"])
def test_queues_are_rebuilt_despite_a_power_failure_meanwhile(crash: str):
    for change in range(1, 60):
        disk = a_closed_store().copy()
        disk.remove(f"{ROOT}/consumequeue")
        disk.cut_power_at(change)
        try:
            store, _ = opened(disk)
        except PowerCut:
            disk = disk.crash(Random(change))
            store, _ = opened(disk)
            assert everything(store) == list(range(60)), f"power cut at change {change}"
            continue
        if crash == "later":
            store, _ = opened(disk.crash(Random(change)))
        assert everything(store) == list(range(60))
        return


def test_a_queue_file_of_a_wrong_size_or_with_a_gap_before_it_is_built_again():
    disk = a_closed_store()
    names = disk.names(QUEUE)
    for damage in ("size", "gap", "all gone"):
        damaged = disk.copy()
        if damage == "size":
            damaged.write_file(f"{QUEUE}/{names[-1]}", bytes(50))
        elif damage == "gap":
            damaged.remove(f"{QUEUE}/{names[1]}")
        else:
            for name in names:
                damaged.write_file(f"{QUEUE}/{name}", bytes(200))
        store, _ = opened(damaged)
        assert everything(store) == list(range(60)), damage


def test_the_last_file_of_a_queue_that_was_deleted_is_built_again():
    disk = a_closed_store()
    before = disk.contents()
    disk.remove(f"{QUEUE}/{disk.names(QUEUE)[-1]}")
    store, _ = opened(disk)
    assert everything(store) == list(range(60))
    store.close()
    assert disk.contents() == before


def test_an_index_that_was_deleted_is_built_again():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append([a_message(keys=f"k{number}") for number in range(30)], START_MS)
    store.close()
    disk.remove(f"{ROOT}/index")
    store, _ = opened(disk)
    store.append([a_message(keys="new")], START_MS + 100)
    for key in [*(f"k{number}" for number in range(30)), "new"]:
        assert len(store.reading.query("orders", key, 0, FOREVER_MS, 10)) == 1, key


@pytest.mark.parametrize(
    "wrong", [struct.pack(">qiq", 0, 0x7FFF_FFFF, 0), bytes(20), struct.pack(">qiq", 1, 300, 5), b"\xff" * 20]
)
@pytest.mark.parametrize("queue_offset", [0, 7, 14, 29])
def test_wrong_queue_entry_is_repaired_when_it_is_read(wrong: bytes, queue_offset: int):
    disk = a_closed_store()
    before = disk.contents()
    name, at = divmod(queue_offset * 20, SMALL.queue_entries_per_file * 20)
    file = disk.open(f"{QUEUE}/{name * SMALL.queue_entries_per_file * 20:020d}", writable=True)
    store, _ = opened(disk)
    file.write(at, wrong)
    assert everything(store) == list(range(60))
    store.close()
    assert disk.contents() == before


def test_a_half_message_is_never_taken_for_a_message_of_its_queue():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    half = a_message(body=b"half")
    store.append([half._replace(record=_prepared(half.record), sys_flag=TRANSACTION_PREPARED)], START_MS)
    queue = store.queues._make(("orders", 0))
    queue.append(3, [struct.pack(">qiq", 0, 0x7FFF_FFFF, 0)])  # a queue whose first entries name nothing
    assert store.reading.messages("orders", 0, 0, 10).records == []


def _prepared(record: bytes) -> bytes:
    return record[:36] + struct.pack(">i", TRANSACTION_PREPARED) + record[40:]


def test_a_store_without_its_checkpoint_or_checksums_opens():
    for gone in ("checkpoint", "checksums"):
        disk = a_closed_store()
        disk.remove(f"{ROOT}/{gone}")
        store, _ = opened(disk)
        assert everything(store) == list(range(60))
        store.close()


# --- after a crash


def test_after_a_kill_only_messages_behind_the_checkpoint_are_read():
    store, recovered = opened(a_killed_store(10, 7))
    assert (recovered.after_crash, recovered.messages) == (True, 7)
    assert numbers(read_queue(store)) == list(range(17))
    assert "7 messages were read again" in recovered.sentences()[0]


def test_torn_record_behind_the_checkpoint_does_not_cause_a_full_scan():
    disk = a_killed_store(10, 1)
    intact, _ = opened(disk.copy())
    offset, size = place_of(intact, 10)
    disk.nodes[LOG].content[offset + size - 20 : offset + size] = bytes(20)
    store, recovered = opened(disk)
    assert (recovered.walked_from, recovered.messages, recovered.cut_bytes > 0) == (offset, 0, True)
    assert len(bodies(store)) == 10


def test_undecodable_message_does_not_prevent_opening():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    odd = encode_record(Record(topic="orders", body=b"odd", properties=b"KEYS\x01\xff\xfe\x02"))
    store.append([AppendRequest("orders", 0, odd, 0, ())], START_MS)
    store.append(numbered(2), START_MS)
    again, _ = opened(disk.kill())
    assert len(bodies(again)) == 3


def test_record_whose_topic_is_a_path_creates_no_file():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    (placed,) = store.append([a_message("orders")], START_MS)
    killed = disk.kill()
    content = killed.nodes[LOG].content
    at = content.index(b"orders", placed.physical_offset)
    content[at : at + 6] = b"../x/y"
    killed.remove(f"{ROOT}/checksums")
    again, _ = opened(killed)
    assert bodies(again) == []


# --- damage


def damage(disk: SimulatedDisk, at: int, size: int = 4) -> bytes:
    content = disk.nodes[LOG].content
    content[at : at + size] = bytes(byte ^ 0xFF for byte in content[at : at + size])
    return bytes(content)


def test_damage_is_set_aside_and_later_messages_are_kept():
    disk = a_killed_store(0, 12)
    offset, size = place_of(an_open_store(disk.copy()), 5)
    damaged = damage(disk, offset + 100)
    store, recovered = opened(disk)
    assert numbers(read_queue(store)) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    (aside,) = recovered.set_aside
    assert (aside.offset, aside.size) == (offset, size)
    assert disk.read(aside.kept) == damaged[offset : offset + size]
    assert any(sentence.startswith("DAMAGE") and str(offset) in sentence for sentence in recovered.sentences())
    assert store.reading.record_at(offset) is None


def test_every_field_of_a_record_is_protected_behind_the_checkpoint_and_before_it():
    for checkpointed in (0, 12):
        disk = a_killed_store(checkpointed, 12 - checkpointed, is_written=True)
        offset, size = place_of(an_open_store(disk.copy()), 5)
        for at in range(size):
            flipped = disk.copy()
            flipped.nodes[LOG].content[offset + at] ^= 0x04
            store, _ = opened(flipped)
            assert numbers(read_queue(store)) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], f"byte {at}"


def test_fillers_are_sound_records_that_no_reader_stops_at():
    disk = a_killed_store(0, 12)
    offset, size = place_of(an_open_store(disk.copy()), 5)
    damage(disk, offset)
    store, _ = opened(disk)
    filler_size, magic = struct.unpack_from(">iI", disk.nodes[LOG].content, offset)
    assert (filler_size, magic) == (size, 0xDAA320A7)
    store.close()
    again, recovered = opened(disk)
    assert recovered.set_aside == []
    assert len(bodies(again)) == 11


def test_a_damaged_blank_does_not_hide_the_next_segment():
    disk = a_closed_store()
    store = an_open_store(disk.copy())
    blank_at = next(at for at in range(8192 - 8) if store.log.is_blank(at))
    disk.write_file(f"{ROOT}/abort", b"skyrocket\n")
    disk.remove(f"{ROOT}/checkpoint")
    damage(disk, blank_at, 8)
    again, recovered = opened(disk)
    assert everything(again) == list(range(60))
    assert [aside.offset for aside in recovered.set_aside] == [blank_at]
    assert struct.unpack_from(">ii", disk.nodes[LOG].content, blank_at) == (8192 - blank_at, BLANK_MAGIC)


def test_damage_before_the_safe_end_is_not_cut_as_a_torn_tail():
    disk = a_killed_store(12, 0)
    offset, size = place_of(an_open_store(disk.copy()), 11)
    # The checkpoint says that it was on disk, but the walk starts before it: as when queues were behind.
    disk.remove(f"{ROOT}/consumequeue")
    damage(disk, offset + 100)
    store, _ = opened(disk)
    assert store.log.end == offset + size
    assert len(bodies(store)) == 11
    (placed,) = store.append([a_message()], START_MS)
    assert placed.physical_offset == offset + size


def test_two_damaged_neighbours_are_set_aside_together():
    disk = a_killed_store(0, 12)
    intact = an_open_store(disk.copy())
    first, second = place_of(intact, 5), place_of(intact, 6)
    damage(disk, first[0] + 100)
    damage(disk, second[0] + 100)
    store, recovered = opened(disk)
    assert [(aside.offset, aside.size) for aside in recovered.set_aside] == [(first[0], first[1] + second[1])]
    assert len(bodies(store)) == 10


def test_a_queue_that_lost_its_first_messages_recovers_the_same_way_twice():
    disk = a_killed_store(0, 12)
    intact = an_open_store(disk.copy())
    for number in range(3):
        damage(disk, place_of(intact, number)[0] + 100)
    store, _ = opened(disk)
    assert numbers(read_queue(store)) == list(range(3, 12))
    store.close()
    once = disk.contents()
    disk.write_file(f"{ROOT}/abort", b"1234")  # Apache's process id
    disk.remove(f"{ROOT}/checkpoint")
    again, _ = opened(disk)
    assert numbers(read_queue(again)) == list(range(3, 12))
    again.close()
    queue_files = [path for path in once if path.startswith(QUEUE)]
    assert {path: disk.contents()[path] for path in queue_files} == {path: once[path] for path in queue_files}


# --- Apache was here


def test_checksums_do_not_reject_records_of_another_broker():
    disk = a_killed_store(10, 2)
    store = an_open_store(disk.copy())
    offset, size = place_of(store, 11)
    other = bytearray(disk.nodes[LOG].content[offset : offset + size])
    other[size - 3 : size - 1] = b"zz"  # another unique key, of the same length
    disk.nodes[LOG].content[offset : offset + size] = other
    disk.write_file(f"{ROOT}/abort", b"1234")  # Apache's process id: it wrote since
    again, recovered = opened(disk)
    assert recovered.set_aside == []
    assert len(bodies(again)) == 12

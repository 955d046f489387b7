"""The log is cut at every byte of its last records: recovery returns exactly the records before the cut."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import ROOT, SMALL, START_MS, a_message, an_open_store, bodies, number_of, numbered

LOG = f"{ROOT}/commitlog/00000000000000000000"
LAST = 3  # records that are cut through


def a_killed_store() -> tuple[SimulatedDisk, list[int]]:
    """Return a store of ten different messages, half of them checkpointed, and where each ends. All checksums are written."""
    disk = SimulatedDisk()
    store = an_open_store(disk)
    messages = numbered(5)
    placed = store.append(messages, START_MS)
    store.flush()
    store.checkpoint()
    placed += store.append(numbered(2, first=5), START_MS + 1)
    placed += store.append(
        [
            a_message(body=b"000007", keys="a b", unique="U7", note="x" * 600),  # properties over more than a sector
            a_message(body=b"000008", v6=True),  # no properties
            a_message(body=b"000009" + bytes(600), tags="red", unique="U9"),
        ],
        START_MS + 2,
    )
    assert store.write_late()
    return disk.kill(), [place.physical_offset + place.size for place in placed]


def zeros(size: int) -> bytes:
    return bytes(size)


def garbage(size: int) -> bytes:
    return Random(size).randbytes(size)


def cuts(ends: list[int]) -> Iterator[int]:
    yield from range(ends[-LAST - 1], ends[-1] + 1)


# Not (garbage, "lost"): no power cut turns the rest of a record into something else and loses its checksum too.
@pytest.mark.parametrize(("rest", "checksums"), [(zeros, "kept"), (zeros, "lost"), (garbage, "kept")])
def test_recovery_yields_exactly_the_records_before_the_cut(rest, checksums: str):
    killed, ends = a_killed_store()
    for cut in cuts(ends):
        disk = killed.copy()
        content = disk.nodes[LOG].content
        was = bytes(content)
        content[cut:] = rest(len(content) - cut)
        if checksums == "lost":
            lose_checksums_behind_the_checkpoint(disk)
        store = an_open_store(disk)
        # A cut that changes no byte of a record (it ended in zeros, or random bytes were right) did not cut it.
        whole = [end for end in ends if content[:end] == was[:end]]
        assert len(whole) >= sum(end <= cut for end in ends)
        assert store.log.end == max(whole), f"cut at {cut}"
        assert [number_of(body) for body in bodies(store)] == list(range(len(whole))), f"cut at {cut}"
        assert not any(disk.nodes[LOG].content[store.log.end :]), f"cut at {cut}: something was left behind the end"
        check_going_on(store, len(whole))


def lose_checksums_behind_the_checkpoint(disk: SimulatedDisk) -> None:
    content = disk.nodes[f"{ROOT}/checksums/00000000000000000000"].content
    content[5 * 8 :] = bytes(len(content) - 5 * 8)


def check_going_on(store: MessageStore, count: int) -> None:
    (placed,) = store.append([a_message(body=b"the next")], START_MS + 5)
    assert placed.queue_offset == count
    assert bodies(store)[-1] == b"the next"
    store.close()


def test_cut_in_the_second_segment_does_not_change_the_first():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(40, body_bytes=200), START_MS)
    assert len(store.log.segments.starts) == 2
    second = store.log.segments.starts[1]
    ends = [place[0] + place[1] for place in places(store)]
    killed = disk.kill()
    for cut in (second, second + 1, second + 8, second + 100, second + 500):
        disk = killed.copy()
        node = disk.nodes[f"{ROOT}/commitlog/{second:020d}"]
        node.content[cut - second :] = bytes(len(node.content) - cut + second)
        again = an_open_store(disk)
        assert len(bodies(again)) == sum(end <= cut for end in ends)
        check_going_on(again, sum(end <= cut for end in ends))


def places(store: MessageStore) -> list[tuple[int, int]]:
    queue = store.queues.get("orders", 0)
    assert queue is not None
    entries = [queue.entry(offset) for offset in range(queue.max_offset)]
    return [(entry.physical_offset, entry.size) for entry in entries if entry is not None]


def test_recovery_reports_a_torn_tail_in_a_sentence():
    killed, ends = a_killed_store()
    killed.nodes[LOG].content[ends[-1] - 5 :] = bytes(8192 - ends[-1] + 5)
    recovered = MessageStore(ROOT, SMALL, files=killed).open()
    assert recovered.cut_bytes > 0
    assert any("torn tail" in sentence for sentence in recovered.sentences())

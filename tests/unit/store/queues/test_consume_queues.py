"""All queues of a store: what happens when messages come again, or others come with the same queue offsets."""

from __future__ import annotations

import pytest

from skyrocket.store.message import DispatchRequest
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queues import ConsumeQueues
from tests.support.brokers.send_parts import SMALL
from tests.support.stores.simulated_disk import SimulatedDisk

SIZE = 100


@pytest.fixture
def queues() -> ConsumeQueues:
    store = MessageStore("store", SMALL.store_config(), files=SimulatedDisk())
    store.open()
    return store.queues


def dispatch(queue_offset: int, physical_offset: int) -> DispatchRequest:
    return DispatchRequest("orders", 0, queue_offset, physical_offset, SIZE, 0, 1_000, (), 0)


def put(queues: ConsumeQueues, *places: tuple[int, int]) -> None:
    queues.put([dispatch(queue_offset, physical_offset) for queue_offset, physical_offset in places])


def shown(queues: ConsumeQueues) -> dict[int, int]:
    """The physical offset of each entry, by its queue offset."""
    queue = queues.get("orders", 0)
    assert queue is not None
    entries = {offset: queue.entry(offset) for offset in range(queue.min_offset, queue.max_offset)}
    return {offset: entry.physical_offset for offset, entry in entries.items() if entry is not None}


def test_messages_that_come_again_change_nothing(queues: ConsumeQueues):
    put(queues, (0, 0), (1, 100), (2, 200))
    for again in ([(0, 0), (1, 100)], [(1, 100), (2, 200)], [(2, 200)]):
        put(queues, *again)
    put(queues, (1, 100), (2, 200), (3, 300))
    assert shown(queues) == {0: 0, 1: 100, 2: 200, 3: 300}


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_queue_begins_anew_when_later_messages_have_its_offsets(queues: ConsumeQueues, is_written: bool, together: bool):
    """A master deleted the topic and created it again: its slave gets messages that begin at offset 0."""
    old, new = [(0, 0), (1, 100), (2, 200)], [(0, 700), (1, 800)]
    if together:
        put(queues, *old, *new)
    else:
        put(queues, *old)
        if is_written:
            queues.write_late(10)
        put(queues, *new)
    assert shown(queues) == {0: 700, 1: 800}
    assert queues.next_offset(("orders", 0)) == 2
    put(queues, (2, 900))
    queues.write_late(10)
    assert shown(queues) == {0: 700, 1: 800, 2: 900}


def test_offsets_in_the_middle_that_are_used_again_replace_what_follows(queues: ConsumeQueues):
    put(queues, (0, 0), (1, 100), (2, 200), (3, 300))
    put(queues, (2, 700))
    assert shown(queues) == {0: 0, 1: 100, 2: 700}

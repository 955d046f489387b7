"""Rebalance strategies: what each is for. Tests with golden data and in interop/ check that results equal Java's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.consumer.strategies import (
    Averagely,
    Circle,
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    RebalanceError,
    Strategy,
    allocate_queues,
)
from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue

QUEUES = [Queue("orders", "broker-a", number) for number in range(8)]
IDS = ["c1", "c2", "c3"]


def room(name: str) -> str:
    return name.partition("@")[0]


def numbers(strategy: Strategy, queues: list[Queue] = QUEUES, ids: list[str] = IDS) -> list[list[int]]:
    return [[queue.queue_id for queue in strategy.allocate("group", me, queues, ids)] for me in ids]


COMPLETE = {
    "averagely": Averagely(),
    "circle": Circle(),
    "room": MachineRoom(["room1"]),
    "nearby": MachineRoomNearby(lambda queue: room(queue.broker_name), room),
    "nearby by hash": MachineRoomNearby(lambda queue: room(queue.broker_name), room, ConsistentHash()),
    "hash": ConsistentHash(),
}


def test_averagely_gives_neighbouring_queues():
    assert numbers(Averagely()) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert numbers(Averagely(), QUEUES[:2]) == [[0], [1], []]


def test_circle_deals_queues_out_in_turn():
    assert numbers(Circle()) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_configured_gives_the_configured_queues():
    assert numbers(Configured(QUEUES[3:5])) == [[3, 4]] * 3


def test_machine_room_allocates_only_queues_of_the_given_rooms():
    queues = [Queue("orders", broker, number) for broker in ("room1@a", "room2@a") for number in range(4)]
    allocations = [MachineRoom(["room1"]).allocate("group", me, queues, IDS) for me in IDS]
    assert [[(q.broker_name, q.queue_id) for q in mine] for mine in allocations] == [
        [("room1@a", 0), ("room1@a", 3)],
        [("room1@a", 1)],
        [("room1@a", 2)],
    ]


def test_nearby_members_get_their_rooms_queues_and_all_share_a_room_without_members():
    queues = [Queue("orders", broker, number) for broker in ("east@a", "south@a", "west@a") for number in range(2)]
    ids = ["east@1", "west@1", "west@2"]
    allocations = [COMPLETE["nearby"].allocate("group", me, queues, ids) for me in ids]
    assert [[f"{q.broker_name}/{q.queue_id}" for q in mine] for mine in allocations] == [
        ["east@a/0", "east@a/1", "south@a/0"],
        ["west@a/0", "south@a/1"],
        ["west@a/1"],
    ]


def test_queue_without_a_machine_room_is_refused():
    with pytest.raises(RebalanceError, match="No machine room for queue 0 of orders at broker-a"):
        MachineRoomNearby(lambda queue: "", room).allocate("group", "c1", QUEUES, IDS)


def test_consistent_hash_moves_only_the_queues_of_a_member_that_leaves():
    queues = [Queue("orders", "broker-a", number) for number in range(200)]
    ids = [f"10.0.0.{number}@1" for number in range(6)]
    before = {queue: me for me in ids for queue in ConsistentHash().allocate("group", me, queues, ids)}
    after = {queue: me for me in ids[1:] for queue in ConsistentHash().allocate("group", me, queues, ids[1:])}
    assert all(after[queue] == me for queue, me in before.items() if me != ids[0])


def test_equal_hashes_give_the_queue_to_that_member_and_the_node_to_the_later_member():
    hashes = {"c1-0": 10, "c2-0": 20, "c3-0": 20}
    ring = ConsistentHash(virtual_nodes=1, hash_function=lambda text: hashes.get(text) or 10 * int(text[-2]))
    assert numbers(ring) == [[0, 1, 3, 4, 5, 6, 7], [], [2]]


def test_ring_without_nodes_gives_no_queues_and_a_negative_number_is_refused():
    assert numbers(ConsistentHash(virtual_nodes=0)) == [[], [], []]
    with pytest.raises(RebalanceError):
        ConsistentHash(virtual_nodes=-1)


@pytest.mark.parametrize("strategy", COMPLETE.values(), ids=COMPLETE)
def test_empty_arguments_are_refused_and_a_non_member_gets_no_queues(strategy: Strategy):
    assert issubclass(RebalanceError, ClientError)
    for me, queues, ids in (("", QUEUES, IDS), ("c1", [], IDS), ("c1", QUEUES, [])):
        with pytest.raises(RebalanceError, match="A rebalance needs"):
            strategy.allocate("group", me, queues, ids)
    assert strategy.allocate("group", "non-member", QUEUES, IDS) == []


rooms = st.sampled_from(["room1", "room2", "room3"])
some_queues = st.sets(st.builds(lambda r, n: Queue("orders", f"{r}@a", n), rooms, st.integers(0, 40)), min_size=1, max_size=40)
some_ids = st.sets(st.builds(lambda r, n: f"{r}@{n}", rooms, st.integers(0, 30)), min_size=1, max_size=12)


@pytest.mark.parametrize("name", COMPLETE)
@given(queues=some_queues, ids=some_ids)
def test_every_queue_goes_to_exactly_one_member(name: str, queues: set[Queue], ids: set[str]):
    allocated = [queue for me in ids for queue in allocate_queues(COMPLETE[name], "group", me, queues, ids)]
    expected = {queue for queue in queues if queue.broker_name == "room1@a"} if name == "room" else queues
    assert len(allocated) == len(set(allocated))
    assert set(allocated) == expected

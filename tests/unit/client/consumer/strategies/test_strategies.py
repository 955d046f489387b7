"""Who gets which queue. That the answers are Java's, golden/ and interop/ say; here is what each strategy is for."""

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
    share,
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


def test_averagely_gives_neighbours():
    assert numbers(Averagely()) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert numbers(Averagely(), QUEUES[:2]) == [[0], [1], []]


def test_circle_deals_like_cards():
    assert numbers(Circle()) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_configured_queues_are_whatever_was_configured():
    assert numbers(Configured(QUEUES[3:5])) == [[3, 4]] * 3


def test_only_queues_of_the_named_rooms_are_shared():
    queues = [Queue("orders", broker, number) for broker in ("room1@a", "room2@a") for number in range(4)]
    shares = [MachineRoom(["room1"]).allocate("group", me, queues, IDS) for me in IDS]
    assert [[(q.broker_name, q.queue_id) for q in mine] for mine in shares] == [
        [("room1@a", 0), ("room1@a", 3)],
        [("room1@a", 1)],
        [("room1@a", 2)],
    ]


def test_a_room_is_served_by_its_own_members_and_an_empty_one_by_all():
    queues = [Queue("orders", broker, number) for broker in ("east@a", "south@a", "west@a") for number in range(2)]
    ids = ["east@1", "west@1", "west@2"]
    shares = [COMPLETE["nearby"].allocate("group", me, queues, ids) for me in ids]
    assert [[f"{q.broker_name}/{q.queue_id}" for q in mine] for mine in shares] == [
        ["east@a/0", "east@a/1", "south@a/0"],
        ["west@a/0", "south@a/1"],
        ["west@a/1"],
    ]


def test_a_room_that_nobody_can_name_is_refused():
    with pytest.raises(RebalanceError, match="No machine room is known for queue 0 of orders at broker-a"):
        MachineRoomNearby(lambda queue: "", room).allocate("group", "c1", QUEUES, IDS)


def test_with_consistent_hashing_whoever_leaves_moves_only_his_own_queues():
    queues = [Queue("orders", "broker-a", number) for number in range(200)]
    ids = [f"10.0.0.{number}@1" for number in range(6)]
    before = {queue: me for me in ids for queue in ConsistentHash().allocate("group", me, queues, ids)}
    after = {queue: me for me in ids[1:] for queue in ConsistentHash().allocate("group", me, queues, ids[1:])}
    assert all(after[queue] == me for queue, me in before.items() if me != ids[0])


def test_a_queue_at_a_members_very_place_is_his_and_of_two_members_at_one_place_the_later_stays():
    places = {"c1-0": 10, "c2-0": 20, "c3-0": 20}
    ring = ConsistentHash(points=1, place=lambda text: places.get(text) or 10 * int(text[-2]))
    assert numbers(ring) == [[0, 1, 3, 4, 5, 6, 7], [], [2]]


def test_a_ring_without_points_gives_nothing_and_one_with_fewer_is_refused():
    assert numbers(ConsistentHash(points=0)) == [[], [], []]
    with pytest.raises(RebalanceError):
        ConsistentHash(points=-1)


@pytest.mark.parametrize("strategy", COMPLETE.values(), ids=COMPLETE)
def test_what_cannot_be_shared_is_refused_and_a_stranger_gets_nothing(strategy: Strategy):
    assert issubclass(RebalanceError, ClientError)
    for me, queues, ids in (("", QUEUES, IDS), ("c1", [], IDS), ("c1", QUEUES, [])):
        with pytest.raises(RebalanceError, match="A rebalance needs"):
            strategy.allocate("group", me, queues, ids)
    assert strategy.allocate("group", "stranger", QUEUES, IDS) == []


rooms = st.sampled_from(["room1", "room2", "room3"])
some_queues = st.sets(st.builds(lambda r, n: Queue("orders", f"{r}@a", n), rooms, st.integers(0, 40)), min_size=1, max_size=40)
some_ids = st.sets(st.builds(lambda r, n: f"{r}@{n}", rooms, st.integers(0, 30)), min_size=1, max_size=12)


@pytest.mark.parametrize("name", COMPLETE)
@given(queues=some_queues, ids=some_ids)
def test_every_queue_has_exactly_one_member(name: str, queues: set[Queue], ids: set[str]):
    given_out = [queue for me in ids for queue in share(COMPLETE[name], "group", me, queues, ids)]
    expected = {queue for queue in queues if queue.broker_name == "room1@a"} if name == "room" else queues
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == expected

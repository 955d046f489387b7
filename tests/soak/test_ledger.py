"""The ledger finds what it is there to find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skyrocket.client import Queue
from tests.soak.clock import Clock, Disturbance
from tests.soak.ledger import Ledger

QUEUE = Queue("t", "broker-a", 0)


class Scene:
    def __init__(self, *disturbances: Disturbance, is_redelivered: bool = False) -> None:
        self.clock = Clock(0, 1)
        self.clock.disturbances += disturbances
        self.ledger = Ledger("scene", self.clock, is_redelivered=is_redelivered)

    def acknowledge(self, name: str, *, is_safe: bool = True) -> None:
        receipt: Any = SimpleNamespace(is_safe=is_safe, status=SimpleNamespace(name="LATE"), queue=QUEUE, queue_offset=3)
        self.ledger.acknowledge(name, receipt)

    def deliver(self, name: str, at_s: float, offset: int = 3) -> None:
        self.ledger.deliver(name, SimpleNamespace(queue=QUEUE, queue_offset=offset))  # type: ignore[arg-type]
        self.ledger.deliveries[name][-1] = self.ledger.deliveries[name][-1]._replace(at_s=at_s)


def test_an_acknowledged_message_that_never_comes_is_lost():
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.acknowledge(name)
    scene.acknowledge("not safe", is_safe=False)
    scene.deliver("b", 1.0)
    assert scene.ledger.lost() == ["a", "c"]
    (problem,) = scene.ledger.problems()
    assert problem.startswith("scene: 2 acknowledged messages were lost: a at ")
    assert scene.ledger.errors == {"LATE": 1}


def test_a_rolled_back_message_may_not_come():
    scene = Scene()
    scene.ledger.forbidden.add("a")
    assert scene.ledger.problems() == []
    scene.deliver("a", 1.0)
    assert scene.ledger.problems() == ["scene: 1 messages were delivered that were rolled back: a"]


def test_a_message_that_was_sent_once_may_not_be_stored_twice():
    scene = Scene()
    scene.deliver("a", 1.0, offset=3)
    scene.deliver("a", 1.1, offset=4)
    (problem,) = scene.ledger.problems()
    assert "1 messages were stored twice: a" in problem


@pytest.mark.parametrize(
    ("first_s", "again_s", "is_explained"),
    [
        (95, 101, True),  # handled just before the kill at 100 s
        (50, 101, False),  # its offset was saved long before
        (95, 99, False),  # before the kill
        (110, 115, True),  # two members had the queue for a moment after it
        (110, 99.9, False),
        (300, 310, False),
    ],
)
def test_only_a_kill_explains_that_a_message_is_delivered_again(first_s: float, again_s: float, is_explained: bool):
    scene = Scene(Disturbance("kill", "broker-b", 100, 102), Disturbance("slow", "broker-b", 300, 302))
    scene.deliver("a", first_s)
    scene.deliver("a", again_s)
    assert (scene.ledger.problems() == []) is is_explained


@pytest.mark.parametrize(
    ("kind", "server", "is_redelivered", "is_explained"),
    [
        ("kill", "broker-a", True, True),
        ("full", "broker-a", True, True),
        ("slow", "broker-a", True, False),
        ("kill", "broker-b", True, False),
        ("kill", "broker-a", False, False),
    ],
)
def test_a_kill_or_a_full_disk_explains_a_second_copy_only_where_its_broker_stores_messages_by_itself(
    kind: str, server: str, is_redelivered: bool, is_explained: bool
):
    scene = Scene(Disturbance(kind, server, 100, 102), is_redelivered=is_redelivered)
    scene.deliver("a", 99, offset=3)
    scene.deliver("a", 103, offset=4)
    assert (scene.ledger.problems() == []) is is_explained


def test_offsets_are_not_saved_while_the_disk_is_full():
    full = Disturbance("full", "broker-a", 60, 90)
    scene = Scene(full, Disturbance("kill", "broker-a", 100, 102))
    scene.deliver("a", 50)
    scene.deliver("a", 103)
    assert scene.ledger.problems() == []

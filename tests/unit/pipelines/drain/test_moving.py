"""A group is moved behind what was archived, with members that commit older offsets and brokers that forget."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyrocket.client.admin.results import QueueOffset, QueueStatus, TopicStatus
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.drain.moving import SET_AGAIN_S, move_group
from skyrocket.pipelines.errors import DrainError

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
DRAINED = {A: QueueBounds(5, 30), B: QueueBounds(5, 30)}


class ScriptedGroup:
    """The offsets of a group, and a clock. At a time of `forgets` the group falls back to its old offsets."""

    def __init__(self, offsets: Mapping[Queue, int], end: int = 40, forgets: tuple[float, ...] = ()) -> None:
        self.offsets, self.before, self.end = dict(offsets), dict(offsets), end
        self.now_s, self.forgets = 0.0, list(forgets)
        self.calls: list[dict[Queue, int]] = []
        self.admin = cast(
            "Admin",
            SimpleNamespace(
                offsets=SimpleNamespace(get=self.get, set=self.set), topics=SimpleNamespace(status=lambda _topic: self.status())
            ),
        )

    def get(self, group: str, topic: str) -> list[QueueOffset]:
        return [
            QueueOffset(group=group, topic=topic, broker_name=queue.broker_name, queue_id=queue.queue_id, offset=offset)
            for queue, offset in self.offsets.items()
        ]

    def set(self, _group: str, offsets: Mapping[Queue, int]) -> None:
        self.calls.append(dict(offsets))
        self.offsets |= offsets
        self.forget()

    def status(self) -> TopicStatus:
        rows = [
            QueueStatus(
                topic="orders", broker_name="broker-a", queue_id=number, first_offset=0, end_offset=self.end, updated_ms=0
            )
            for number in (0, 1)
        ]
        return TopicStatus(topic="orders", messages=2 * self.end, queues=rows)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def forget(self) -> None:
        if self.forgets and self.now_s >= self.forgets[0]:
            self.forgets.pop(0)
            self.offsets = dict(self.before)

    def move(self) -> Any:
        return move_group(self.admin, "g", DRAINED, clock=lambda: self.now_s, sleep=self.sleep)


def test_queues_that_are_behind_are_set_once_and_others_stay():
    group = ScriptedGroup({A: 7, B: 35})
    assert group.move() == {A: 7, B: 35}
    assert (group.calls, group.offsets) == ([{A: 30}], {A: 30, B: 35})


def test_offsets_that_were_forgotten_are_set_again():
    group = ScriptedGroup({A: 7, B: 9}, forgets=(0.0,))
    group.move()
    assert (group.offsets, len(group.calls)) == ({A: 30, B: 30}, 2)
    assert group.now_s >= SET_AGAIN_S


def test_a_group_that_never_stays_is_an_error():
    group = ScriptedGroup({A: 7, B: 9}, forgets=tuple([0.0] * 100))
    with pytest.raises(DrainError, match=r"was moved to 30 of .*, but does not stay there"):
        group.move()


def test_no_queue_is_moved_if_one_must_not_be():
    group = ScriptedGroup({A: 7, B: 4})
    with pytest.raises(DrainError, match="was set back to 4"):
        group.move()
    assert group.calls == []

from __future__ import annotations

from typing import Any

import pytest

from skyrocket.broker.tables.consumer_offsets import offsets_key
from skyrocket.protocol.bodies import ResetOffsetBody
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import WALL_MS, Parts


def prepared() -> Parts:
    """Build parts with five messages in queue 0 and one in queue 1 of three; the group has consumed three of the five."""
    parts = Parts()
    parts.a_topic(queues=3)
    parts.groups.for_consumer("billing")
    parts.messages(5)
    parts.messages(1, queue_id=1)
    parts.offsets.commit("billing", "orders", 0, 3)
    return parts


def ask(parts: Parts, **fields: Any) -> Command:
    return parts.ask(222, **{"topic": "orders", "group": "billing", "timestamp": -1, "isForce": True, **fields})


def reset(parts: Parts, **fields: Any) -> dict[int, int]:
    answer = ask(parts, **fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return {queue.queue_id: offset for queue, offset in decode(answer.body, ResetOffsetBody).offset_table.items()}


def test_reset_moves_a_group_to_the_end_or_to_a_time():
    parts = prepared()
    assert reset(parts) == {0: 5, 1: 1, 2: 0}
    assert parts.offsets.query("billing", "orders", 0) == 5
    assert reset(parts, timestamp=WALL_MS + 1_500, queueId=-1, offset=-1) == {0: 2, 1: 0, 2: 0}
    assert parts.offsets.take_reset("billing", "orders", 0) == 2


def test_reset_moves_one_queue_to_an_offset():
    parts = prepared()
    assert reset(parts, queueId=0, offset=2) == {0: 2}
    assert reset(parts, queueId=0, offset=6) == {0: 6}
    assert reset(parts, queueId=1, offset=-1, timestamp=0) == {1: 0}


@pytest.mark.parametrize("offset", [7, -5, 2**62])
def test_an_offset_outside_of_the_queue_is_refused(offset: int):
    parts = prepared()
    assert ask(parts, queueId=0, offset=offset).code == ResponseCode.SYSTEM_ERROR
    assert not parts.offsets.has_reset_at(offsets_key("orders", "billing"), 0)


def test_reset_of_an_unknown_topic_group_or_queue_fails():
    parts = prepared()
    assert ask(parts, topic="nowhere").code == ResponseCode.TOPIC_NOT_EXIST
    assert ask(parts, group="nobody").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert ask(parts, queueId=9, offset=0).code == ResponseCode.SYSTEM_ERROR
    parts.a_topic("empty", queues=0)
    assert ask(parts, topic="empty").code == ResponseCode.SYSTEM_ERROR

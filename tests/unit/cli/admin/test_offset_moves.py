"""What a reset or a skip does to a group, queue by queue."""

from __future__ import annotations

from skyrocket.cli.admin.offset_moves import OffsetMove, make_plan, plan_reset, plan_skip
from skyrocket.client import Queue
from skyrocket.client.admin import QueueOffset

Q0, Q1, Q2 = (Queue("orders", "broker-a", number) for number in range(3))


def at(queue: Queue, offset: int | None) -> QueueOffset:
    return QueueOffset(group="g", topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id, offset=offset)


def test_a_skip_goes_past_messages_that_are_there_and_never_back():
    current = [at(Q0, 5), at(Q1, 98), at(Q2, None)]
    firsts, ends = {Q0: 0, Q1: 0, Q2: 10}, {Q0: 100, Q1: 100, Q2: 20}
    assert plan_skip(current, firsts, ends, 3) == [OffsetMove(Q0, 5, 8), OffsetMove(Q1, 98, 100), OffsetMove(Q2, None, 13)]
    assert plan_skip(current, firsts, ends, None) == [OffsetMove(Q0, 5, 100), OffsetMove(Q1, 98, 100), OffsetMove(Q2, None, 20)]


def test_a_skip_begins_at_the_first_message_that_is_left_and_leaves_queues_that_are_at_their_end():
    assert plan_skip([at(Q0, 5)], {Q0: 50}, {Q0: 100}, 3) == [OffsetMove(Q0, 5, 53)]
    assert plan_skip([at(Q0, 100)], {Q0: 50}, {Q0: 100}, 3) == []
    assert plan_skip([at(Q0, 120)], {Q0: 50}, {Q0: 100}, None) == []  # beyond the end: a reset is what it needs


def test_a_plan_says_how_much_is_skipped_and_how_much_comes_again():
    moves = plan_reset([at(Q0, 5), at(Q1, 50), at(Q2, None)], {Q0: 10, Q1: 20, Q2: 7})
    plan = make_plan("g", "orders", moves)
    assert plan.sentence == "Group g skips 5 messages and gets 30 messages again in topic orders."
    assert plan.document["queues"][2] == {"brokerName": "broker-a", "queueId": 2, "now": None, "then": 7}
    assert "-30" in plan.table
    assert make_plan("g", "orders", []).sentence == "Group g neither skips a message nor gets one again in topic orders."

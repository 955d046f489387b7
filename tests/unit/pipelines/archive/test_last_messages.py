"""A queue that has another message where the known one was is not the queue that was archived."""

from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.last_messages import LastMessage, check_ids, comparable
from skyrocket.pipelines.archive.plan import ARCHIVE_WORDS, QueueBounds, RunPlan
from skyrocket.pipelines.errors import MissingMessagesError

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
KNOWN = [LastMessage(topic="orders", broker="broker-a", queue_id=number, offset=8, id=f"old-{number}") for number in (0, 1)]


def test_only_queues_of_which_more_is_to_be_taken_are_looked_at():
    bounds = {A: QueueBounds(0, 9), B: QueueBounds(8, 10)}
    assert comparable(KNOWN, RunPlan({A: 9, B: 9}, {A: 9, B: 10}), bounds) == KNOWN[1:]


def test_an_offset_that_the_queue_no_longer_has_or_not_yet_is_not_asked_for():
    plan = RunPlan({A: 9, B: 9}, {A: 12, B: 12})
    assert comparable(KNOWN, plan, {A: QueueBounds(9, 12), B: QueueBounds(0, 8)}) == []


def test_the_same_message_and_one_that_is_gone_are_fine():
    check_ids(KNOWN, {A: "old-0"}, ARCHIVE_WORDS)


def test_another_message_is_an_error_that_names_both():
    with pytest.raises(MissingMessagesError) as raised:
        check_ids(KNOWN, {A: "old-0", B: "new"}, ARCHIVE_WORDS)
    assert str(raised.value) == (
        f"The archive has {B} up to offset 9, and the message at 8 was old-1; now it is new: the topic was deleted and created "
        "again, or this is another cluster. Archive it to another folder."
    )

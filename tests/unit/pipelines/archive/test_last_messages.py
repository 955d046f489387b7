"""A queue that has another message where the known one was is not the queue that was archived."""

from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.last_messages import LastMessage, check_ids, growing
from skyrocket.pipelines.archive.plan import ARCHIVE_WORDS, RunPlan
from skyrocket.pipelines.errors import MissingMessagesError

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
KNOWN = [LastMessage(topic="orders", broker="broker-a", queue_id=number, offset=8, id=f"old-{number}") for number in (0, 1)]


def test_only_queues_of_which_more_is_to_be_taken_are_looked_at():
    assert growing(KNOWN, RunPlan({A: 9, B: 9}, {A: 9, B: 10})) == KNOWN[1:]


def test_the_same_message_and_one_that_is_gone_are_fine():
    check_ids(KNOWN, {A: "old-0"}, ARCHIVE_WORDS)


def test_another_message_is_an_error_that_names_both():
    with pytest.raises(MissingMessagesError) as raised:
        check_ids(KNOWN, {A: "old-0", B: "new"}, ARCHIVE_WORDS)
    assert str(raised.value) == (
        f"The archive has {B} up to offset 9, and the message at 8 was old-1; now it is new: the topic was deleted and created "
        "again, or this is another cluster. Archive it to another folder."
    )

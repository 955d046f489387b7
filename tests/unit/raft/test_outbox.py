"""Messages leave when what they tell is durable."""

from __future__ import annotations

from skyrocket.protocol.bodies.dledger import PushEntryResponse
from skyrocket.raft.outbox import HELD_MAX, Outbox
from skyrocket.raft.ports import After, LogPoint, Reply


def reply(state: int = 0, log: tuple[int, int] | None = None) -> Reply:
    return Reply(0, PushEntryResponse(), After(state, LogPoint(*log) if log else None))


def test_message_waits_for_the_state_and_for_the_log():
    outbox, message = Outbox(), reply(2, (0, 5))
    assert not outbox.offer(message)
    assert outbox.state_durable(2) == []
    assert outbox.log_durable(LogPoint(0, 4)) == []
    assert outbox.log_durable(LogPoint(0, 5)) == [message]
    assert outbox.offer(reply(1, (0, 3)))


def test_message_about_a_truncated_log_never_leaves():
    outbox = Outbox()
    outbox.offer(reply(0, (0, 5)))
    assert outbox.log_durable(LogPoint(1, 9)) == []
    assert len(outbox) == 0


def test_message_about_a_new_log_does_not_leave_by_a_flush_of_the_old_one():
    outbox = Outbox()
    outbox.log_durable(LogPoint(0, 9))
    assert not outbox.offer(reply(0, (1, 3)))


def test_messages_leave_in_their_order():
    outbox, messages = Outbox(), [reply(1, (0, number)) for number in range(5)]
    for message in messages:
        outbox.offer(message)
    outbox.state_durable(1)
    assert outbox.log_durable(LogPoint(0, 9)) == messages


def test_held_messages_are_bounded():
    outbox = Outbox()
    for _ in range(HELD_MAX + 5):
        outbox.offer(reply(1))
    assert len(outbox) == HELD_MAX

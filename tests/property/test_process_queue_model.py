"""The process queue loses no message, whatever pulls return and handlers do: compared with a simple model of it."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from skyrocket.client.consumer.process_queue import ProcessQueue


class Message(NamedTuple):
    queue_offset: int
    size_bytes: int


class ProcessQueueMachine(RuleBasedStateMachine):
    @initialize(orderly=st.booleans(), start=st.integers(0, 5))
    def begin(self, orderly: bool, start: int) -> None:
        self.queue = ProcessQueue[Message](start, 0, orderly=orderly)
        self.next = start
        self.waiting: dict[int, Message] = {}
        self.with_handlers: dict[int, Message] = {}
        self.uncommitted: dict[int, Message] = {}
        self.committed = start
        self.done: set[int] = set()
        self.skipped = set(range(start))  # never pulled: before the start, or filtered out

    def unfinished(self) -> dict[int, Message]:
        return self.waiting | self.with_handlers | self.uncommitted

    @rule(steps=st.lists(st.integers(1, 3), max_size=6), back=st.integers(0, 3), beyond=st.integers(0, 3), size=st.integers(0, 9))
    def pull(self, steps: list[int], back: int, beyond: int, size: int) -> None:
        """Add a pull that may overlap the last one, and has gaps where messages have other tags."""
        messages, offset = [], max(-1, self.next - 1 - back)
        for step in steps:
            offset += step
            messages.append(Message(offset, size))
        new = [m for m in messages if m.queue_offset >= self.next]
        after = max(self.next, offset + 1 + beyond)
        assert self.queue.add(messages, offset + 1 + beyond) == len(new)
        self.skipped |= set(range(self.next, after)) - {m.queue_offset for m in new}
        self.waiting |= {m.queue_offset: m for m in new}
        self.next = after

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        taken = self.queue.take(count, 0)
        expected = sorted(self.waiting)[:count] if not (self.queue.orderly and self.with_handlers) else []
        assert [m.queue_offset for m in taken] == expected
        for message in taken:
            self.with_handlers[message.queue_offset] = self.waiting.pop(message.queue_offset)

    def some(self, data: st.DataObject, among: dict[int, Message]) -> list[Message]:
        return data.draw(st.lists(st.sampled_from(list(among.values())), unique=True)) if among else []

    @rule(data=st.data(), again=st.booleans())
    def finish(self, data: st.DataObject, again: bool) -> None:
        messages = self.some(data, self.with_handlers)
        moved = self.queue.finish(messages)
        if again:
            assert self.queue.finish(messages) is None
        for message in messages:
            self.done.add(message.queue_offset)
            del self.with_handlers[message.queue_offset]
        self.check_moved(moved)

    def check_moved(self, answer: int | None) -> None:
        if answer is not None:
            assert answer > self.committed
            self.committed = answer

    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        messages = self.some(data, self.with_handlers)
        self.queue.put_back(messages)
        for message in messages:
            self.waiting[message.queue_offset] = self.with_handlers.pop(message.queue_offset)

    @rule(data=st.data())
    def hold_for_commit(self, data: st.DataObject) -> None:
        if self.queue.orderly:
            messages = self.some(data, self.with_handlers)
            self.queue.hold_for_commit(messages)
            for message in messages:
                self.uncommitted[message.queue_offset] = self.with_handlers.pop(message.queue_offset)

    @rule()
    def commit(self) -> None:
        self.check_moved(self.queue.commit())
        self.done |= set(self.uncommitted)
        self.uncommitted = {}

    @rule()
    def rollback(self) -> None:
        self.queue.rollback()
        self.waiting |= self.uncommitted
        self.uncommitted = {}

    @invariant()
    def everything_before_the_commit_offset_is_done(self) -> None:
        offset = self.queue.commit_offset
        assert offset == min(self.unfinished(), default=self.next)
        assert set(range(offset)) <= self.done | self.skipped
        assert offset >= self.committed

    @invariant()
    def counts_equal_the_model(self) -> None:
        unfinished = self.unfinished()
        queue = self.queue
        assert (queue.cached_messages, queue.waiting, queue.in_flight) == (
            len(unfinished),
            len(self.waiting),
            len(self.with_handlers),
        )
        assert queue.cached_bytes == sum(message.size_bytes for message in unfinished.values())
        assert queue.next_offset == self.next


TestProcessQueue = ProcessQueueMachine.TestCase
TestProcessQueue.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)

"""Whatever pulls bring and handlers do, a consumer's queue loses nothing: held against the simplest model of it there is."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from skyrocket.client.consumer.process_queue import ConsumerQueue


class Message(NamedTuple):
    offset: int
    size: int


class ConsumerQueueMachine(RuleBasedStateMachine):
    @initialize(orderly=st.booleans(), start=st.integers(0, 5))
    def begin(self, orderly: bool, start: int) -> None:
        self.queue = ConsumerQueue[Message](start, 0, orderly=orderly, offset_of=lambda m: m.offset, size_of=lambda m: m.size)
        self.next = start
        self.waiting: dict[int, Message] = {}
        self.with_handlers: dict[int, Message] = {}
        self.held: dict[int, Message] = {}
        self.committed = start
        self.done: set[int] = set()
        self.skipped = set(range(start))  # never shown by the broker: before the start, or filtered out

    def unfinished(self) -> dict[int, Message]:
        return self.waiting | self.with_handlers | self.held

    @rule(steps=st.lists(st.integers(1, 3), max_size=6), back=st.integers(0, 3), beyond=st.integers(0, 3), size=st.integers(0, 9))
    def pull(self, steps: list[int], back: int, beyond: int, size: int) -> None:
        """A pull that may overlap what came before, and has holes where other tags are."""
        messages, offset = [], max(-1, self.next - 1 - back)
        for step in steps:
            offset += step
            messages.append(Message(offset, size))
        new = [m for m in messages if m.offset >= self.next]
        after = max(self.next, offset + 1 + beyond)
        assert self.queue.took(messages, offset + 1 + beyond) == len(new)
        self.skipped |= set(range(self.next, after)) - {m.offset for m in new}
        self.waiting |= {m.offset: m for m in new}
        self.next = after

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        taken = self.queue.take(count, 0)
        expected = sorted(self.waiting)[:count] if not (self.queue.orderly and self.with_handlers) else []
        assert [m.offset for m in taken] == expected
        for message in taken:
            self.with_handlers[message.offset] = self.waiting.pop(message.offset)

    def some(self, data: st.DataObject, among: dict[int, Message]) -> list[Message]:
        return data.draw(st.lists(st.sampled_from(list(among.values())), unique=True)) if among else []

    @rule(data=st.data(), again=st.booleans())
    def finish(self, data: st.DataObject, again: bool) -> None:
        messages = self.some(data, self.with_handlers)
        moved = self.queue.finish(messages)
        if again:
            assert self.queue.finish(messages) is None
        for message in messages:
            self.done.add(message.offset)
            del self.with_handlers[message.offset]
        self.moved(moved)

    def moved(self, answer: int | None) -> None:
        if answer is not None:
            assert answer > self.committed
            self.committed = answer

    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        messages = self.some(data, self.with_handlers)
        self.queue.put_back(messages)
        for message in messages:
            self.waiting[message.offset] = self.with_handlers.pop(message.offset)

    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        if self.queue.orderly:
            messages = self.some(data, self.with_handlers)
            self.queue.hold(messages)
            for message in messages:
                self.held[message.offset] = self.with_handlers.pop(message.offset)

    @rule()
    def commit(self) -> None:
        self.moved(self.queue.commit())
        self.done |= set(self.held)
        self.held = {}

    @rule()
    def roll_back(self) -> None:
        self.queue.rollback()
        self.waiting |= self.held
        self.held = {}

    @invariant()
    def everything_before_the_offset_is_done(self) -> None:
        offset = self.queue.commit_offset
        assert offset == min(self.unfinished(), default=self.next)
        assert set(range(offset)) <= self.done | self.skipped
        assert offset >= self.committed

    @invariant()
    def counts_are_right(self) -> None:
        unfinished = self.unfinished()
        queue = self.queue
        assert (queue.cached_messages, queue.waiting, queue.in_flight) == (
            len(unfinished),
            len(self.waiting),
            len(self.with_handlers),
        )
        assert queue.cached_bytes == sum(message.size for message in unfinished.values())
        assert queue.next_offset == self.next


TestConsumerQueue = ConsumerQueueMachine.TestCase
TestConsumerQueue.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)

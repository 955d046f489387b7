"""What becomes of messages after their handlers: done, given back, put back, or held until a commit.

concurrent            done: finished       failed: given back to the broker; where that fails too, handled again here, later
broadcasting          done: finished       failed: finished, with a line in the log: nobody else's copy is concerned
orderly               done: finished       failed: the queue waits a moment, then the same message comes again; after
                                           retries_max it goes to the group's retry topic, and so among its dead letters
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.dispatch.redelivery import SendingBack
from skyrocket.client.consumer.dispatch.work_batch import Hand, drained
from skyrocket.client.consumer.handlers import Failure, RetryLater, Verdict
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.received import Received

log = logging.getLogger(__name__)

RETRIES_WITHOUT_END = 2**31 - 1  # an orderly consumer's default


class Settling:
    def __init__(
        self,
        sending_back: SendingBack,
        limits: ConsumerLimits,
        now_ms: Callable[[], int],
        *,
        broadcasting: bool,
        retries_max: int | None,
        again: Callable[[HeldQueue], None],
    ) -> None:
        """`again` is told when a queue that waited may be given out."""
        self._sending_back = sending_back
        self._limits = limits
        self._now_ms = now_ms
        self._broadcasting = broadcasting
        self._retries_max = RETRIES_WITHOUT_END if retries_max is None else retries_max
        self._again = again

    def note_done(self, hand: Hand) -> None:
        """What is done so far is finished. At any time, in the loop."""
        if hand.done:
            hand.held.state.finish(drained(hand.done))
            hand.held.wake()

    async def settle(self, hand: Hand) -> None:
        """Nobody works on it any more."""
        state = hand.held.state
        self.note_done(hand)
        try:
            while hand.verdicts:
                self._by_hand(hand.held, *hand.verdicts.popleft())
            while hand.failures:
                failure = hand.failures.popleft()
                log.warning(
                    "The handler of %s failed with %d message(s), the first %s: %r",
                    failure.messages[0].topic,
                    len(failure.messages),
                    failure.messages[0].message_id,
                    failure.error,
                    exc_info=None if isinstance(failure.error, RetryLater) else failure.error,
                )
                if state.orderly:
                    await self._suspend(hand, failure)
                else:
                    await self.give_back(hand.held, failure)
        finally:
            state.put_back(hand.given_up())
            hand.held.hands -= 1
            hand.held.wake()
            if state.waiting:
                self._again(hand.held)

    # --- concurrent

    async def give_back(self, held: HeldQueue, failure: Failure) -> None:
        asked = failure.error if isinstance(failure.error, RetryLater) else None
        again = failure.messages
        if asked is not None and asked.messages is not None:
            chosen = {id(message) for message in asked.messages}
            again = [message for message in failure.messages if id(message) in chosen]
            held.state.finish(message for message in failure.messages if id(message) not in chosen)
        if self._broadcasting:
            log.warning("Broadcast messages are not retried: %d are passed over.", len(again))
            held.state.finish(again)
            return
        again = [message for message in again if held.state.has(message)]  # not those that were overdue and sent back already
        delay_level = asked.delay_level if asked is not None else 0
        done = await asyncio.gather(*(self._sending_back.send_back(message, delay_level) for message in again))
        held.state.finish(message for message, is_done in zip(again, done, strict=True) if is_done)
        kept = [message for message, is_done in zip(again, done, strict=True) if not is_done]
        if kept:
            for message in kept:
                message.record.reconsume_times += 1
            asyncio.get_running_loop().call_later(self._limits.send_back_again_ms / 1000, self._put_back, held, kept)

    def _put_back(self, held: HeldQueue, messages: list[Received]) -> None:
        if not held.state.dropped:
            held.state.put_back(messages)
            self._again(held)

    async def overdue(self, held: HeldQueue) -> None:
        """Those whose handler takes too long are given back; its result will not count."""
        late = held.state.overdue(self._now_ms())
        for message in late:
            log.warning("Message %s is with its handler for too long, and given back.", message.message_id)
        if late:
            done = await asyncio.gather(*(self._sending_back.send_back(message) for message in late))
            held.state.finish(message for message, is_done in zip(late, done, strict=True) if is_done)
            held.wake()

    # --- orderly

    async def _suspend(self, hand: Hand, failure: Failure) -> None:
        state = hand.held.state
        back: list[Received] = []
        for message in failure.messages:
            given_up = message.record.reconsume_times >= self._retries_max
            if given_up and await self._sending_back.send_anew(message, self._retries_max):
                state.finish([message])
            else:
                message.record.reconsume_times += 1
                back.append(message)
        if back:
            asked_ms = failure.error.suspend_ms if isinstance(failure.error, RetryLater) else None
            self._suspended(hand.held, lambda until_ms: state.put_back([*back, *hand.given_up()], until_ms), asked_ms)

    def _by_hand(self, held: HeldQueue, messages: list[Received], verdict: Verdict) -> None:
        held.state.hold(messages)
        if verdict is Verdict.COMMIT:
            held.state.commit()
        elif verdict is Verdict.ROLLBACK:
            self._suspended(held, held.state.rollback, None)

    def _suspended(self, held: HeldQueue, back: Callable[[int], None], asked_ms: int | None) -> None:
        limits = self._limits
        wait_ms = limits.suspend_ms if asked_ms is None else asked_ms
        wait_ms = min(max(wait_ms, limits.suspend_least_ms), limits.suspend_most_ms)
        back(self._now_ms() + wait_ms)
        asyncio.get_running_loop().call_later(wait_ms / 1000 + 0.001, self._again, held)

"""Giving messages out: queues stand in line, and whoever is free takes a hand from the first, at most so many at once.

A hand has as many messages as there are, so that quick handlers do not pay for each of them. As soon as a handler waits for
something, others take half of what lies in its hand, and half of that; so nothing waits beside a free worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.dispatch.completion import Settling
from skyrocket.client.consumer.dispatch.handler_runner import Calling
from skyrocket.client.consumer.dispatch.work_batch import Hand
from skyrocket.client.received import Received

log = logging.getLogger(__name__)

HAND_MESSAGES_MAX = 64
HELP_S = 0.002  # before others help a thread that is not through its hand
HAND_MS_MAX = 1_000  # then what has not been begun goes back
_LISTS = "lists"  # a taker: whoever asks for lists, from whichever task


class Dispatching:
    def __init__(
        self,
        settling: Settling,
        calling: Calling | None,
        now_ms: Callable[[], int],
        *,
        concurrency: int,
        batch: int,
        is_paused: Callable[[HeldQueue], bool],
    ) -> None:
        """Without `calling` nobody is called: hands are asked for with `next_hand`. `batch` is the most a handler takes."""
        self._settling = settling
        self._calling = calling
        self._now_ms = now_ms
        self._concurrency = concurrency
        self._batch = batch
        self._is_paused = is_paused
        self._line: deque[HeldQueue] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()  # for a hand
        self._closed = False
        self._helps = False
        self._help_s = HELP_S if calling is not None and calling.uses_threads else 0.0
        self.hands: set[Hand] = set()

    # --- queues

    def arrived(self, held: HeldQueue) -> None:
        """It has messages that could be given out."""
        if not held.is_in_line:
            held.is_in_line = True
            self._line.append(held)
        if self._calling is not None:
            self._start()
        elif self._waiting:
            self._wake()

    def tick(self, all_held: Iterable[HeldQueue]) -> None:
        """Now and then: note what is done, share what lies about, and look at queues that could not be given out before."""
        now_ms = self._now_ms()
        for hand in list(self.hands):
            self._settling.note_done(hand)
            if now_ms - hand.since_ms > HAND_MS_MAX and not hand.held.state.orderly and hand.rest:
                hand.held.state.put_back(hand.given_up())
        for held in all_held:
            if held.state.waiting:
                self.arrived(held)

    def take(self) -> Hand | None:
        line = self._line
        for _ in range(len(line)):
            held = line.popleft()
            held.is_in_line = False
            if self._is_paused(held) or self._closed:
                continue
            state = held.state
            messages = state.take(max(self._batch, HAND_MESSAGES_MAX), self._now_ms())
            if not messages:
                continue
            if state.waiting and not state.orderly:
                held.is_in_line = True
                line.append(held)
            return self._hand(held, messages)
        return None

    def _hand(self, held: HeldQueue, messages: list[Received]) -> Hand:
        hand = Hand(held, messages, self._now_ms)
        self.hands.add(hand)
        return hand

    # --- handlers

    def _start(self) -> None:
        while len(self._workers) < self._concurrency and (hand := self.take()) is not None:
            self._start_worker(hand)

    def _start_worker(self, hand: Hand) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._work(hand))
        self._workers.add(task)
        task.add_done_callback(self._ended)
        if not self._helps:
            self._helps = True
            loop.call_later(self._help_s, self._help)  # behind the worker's first step

    def _help(self) -> None:
        """Someone waits with more in hand: who is free takes half of it. Again and again, so all that are free help soon."""
        self._helps = False
        if len(self._workers) >= self._concurrency or self._closed:
            return
        hand = self.take()
        if hand is None:
            fullest = max(self.hands, key=lambda known: len(known.rest), default=None)
            if fullest is None or fullest.held.state.orderly or not (messages := fullest.half()):
                return
            hand = self._hand(fullest.held, messages)
        self._start_worker(hand)

    async def _work(self, first: Hand) -> None:
        assert self._calling is not None
        hand: Hand | None = first
        while hand is not None:
            try:
                await self._calling.work_off(hand)
            finally:
                self.hands.discard(hand)
                await self._settling.settle(hand)
            await asyncio.sleep(0)  # handlers that never wait must not keep the loop from everyone else
            hand = self.take()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A worker ended: its messages come again later.", exc_info=task.exception())
        if not self._closed:
            self._start()

    # --- the user's own loop

    async def next_hand(self, taker: object = None) -> Hand | None:
        """None: the consumer is closed."""
        while not self._closed:
            hand = self.take()
            if hand is not None:
                hand.taker = taker or asyncio.current_task()
                return hand
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return None

    async def next_batch(self, most: int) -> list[Received]:
        """For who asks for lists: what was given this way before is done. Empty: the consumer is closed."""
        self.acknowledge_own(_LISTS)
        hand = await self.next_hand(_LISTS)
        if hand is None:
            return []
        while len(hand.batch) < most and (message := hand.next()) is not None:
            hand.batch.append(message)
        batch = hand.batch
        self.laid_down(hand)
        return batch or await self.next_batch(most)  # none: the queue was lost in this moment

    def laid_down(self, hand: Hand) -> None:
        """The loop has left it: what was not looked at goes to the next who asks."""
        self._settling.note_done(hand)
        hand.held.state.put_back(hand.given_up())
        if not hand.is_in_use and hand in self.hands:
            self.hands.discard(hand)
            hand.held.hands -= 1
        if hand.held.state.waiting:
            self.arrived(hand.held)

    def acknowledge(self, hand: Hand) -> None:
        """The one that the loop has left with is done."""
        hand.done.extend(hand.laid_down())
        self.laid_down(hand)

    def acknowledge_own(self, taker: object = None) -> None:
        """The same for whatever this task, or `taker`, has left before: it asks for the next."""
        taker = taker or asyncio.current_task()
        for hand in [hand for hand in self.hands if hand.taker == taker]:
            self.acknowledge(hand)

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    # --- the end

    def close(self) -> None:
        """Nothing more is given out; who waits for a hand gets none."""
        self._closed = True
        while self._waiting:
            self._wake()
        for hand in list(self.hands):
            hand.held.state.put_back(hand.given_up())

    async def drain(self, most_ms: int) -> bool:
        """Whether everything that was in someone's hands came to an end in this time."""
        until = asyncio.get_running_loop().time() + most_ms / 1000
        while self.hands or self._workers:
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            if self._workers:
                await asyncio.wait(self._workers, timeout=left_s)
            else:
                await asyncio.sleep(min(0.01, left_s))
        return True

    async def abandon(self) -> int:
        """How many handlers had to be left: those in the loop are cancelled, those in threads go on without us."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        left = len(self.hands) + len(workers)
        self.hands.clear()
        return left

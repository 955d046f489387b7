"""Sends the messages of one queue of the source to one queue of the target, in order, each once.

    progress file ── next offset 700, look from 4,100 ──►  the target queue from offset 4,100 to its end
                                                           has messages of this replay up to offset 731: continue at 732

One request is under way at a time, so the queue's order stays. A request without an answer is not repeated blindly: the target
queue itself says which messages have arrived. The same look finds where a killed run has stopped. Between two writes of the
progress file lies about a second, so that look is short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from skyrocket.client.errors import ClientError, InvalidMessageError
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.pipelines.errors import ReplayError
from skyrocket.pipelines.replay.pace import Pace
from skyrocket.pipelines.replay.progress_file import ProgressFile, ReplayProgress
from skyrocket.protocol.system_names import RETRY_PREFIX

BATCH_BYTES: Final = 512 * 1024
BATCH_MESSAGES: Final = 1_000
SAVE_S: Final = 1.0  # between two writes of the progress file
SETTLE_S: Final = 1.0  # a request without an answer, or of a killed run, may still be on its way
PAUSE_S_MAX: Final = 8.0
_MESSAGE_OVERHEAD_BYTES: Final = 512  # properties and record header, roughly


class OffsetMessage(NamedTuple):
    offset: int  # in the source queue
    message: Message

    @property
    def size_bytes(self) -> int:
        return len(self.message.body) + _MESSAGE_OVERHEAD_BYTES


class Target(Protocol):
    """What a replay needs of the target cluster. Each method but `send` retries by itself."""

    def send(self, messages: Sequence[Message], queue: Queue) -> Receipt:
        """Send messages in one request, or raise ClientError. It must not repeat a request whose outcome is unknown."""

    def end_offset(self, queue: Queue) -> int: ...

    def replayed_offsets(self, queue: Queue, start: int, source: Queue) -> Iterable[int]:
        """Return the offsets of `source` that this replay has put into the queue at offset `start` or later."""


class QueueReplay:
    def __init__(
        self,
        source: Queue,
        target_queue: Queue,
        target: Target,
        file: ProgressFile,
        pace: Pace | None = None,
        *,
        retry_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source, self._queue, self._target = source, target_queue, target
        self._file, self._pace = file, pace
        self._retry_s, self._clock, self._sleep = retry_s, clock, sleep
        self._waiting: list[OffsetMessage] = []
        self._waiting_bytes = 0
        most = 1 if target_queue.topic.startswith(RETRY_PREFIX) else BATCH_MESSAGES  # brokers take no batches there
        self._batch = most if pace is None else pace.batch(most)
        self.next_offset = 0  # of the source: everything before it has arrived
        self.sent = 0  # by this task
        self._sent_before = 0
        self._look_from = 0
        self._saved_s = 0.0

    def open(self) -> None:
        """Find out where to continue."""
        saved = self._file.read()
        if saved is None:
            self._look_from = self._target.end_offset(self._queue)
        elif saved.target != self._queue:
            raise ReplayError(
                f"{self._source} was replayed to {saved.target} before, and would now go to {self._queue}: the target's queues "
                "have changed. Use another progress folder."
            )
        else:
            self.next_offset, self._look_from, self._sent_before = saved.next_offset, saved.look_from, saved.sent
            self._sleep(SETTLE_S)
            self._sent_before += self._find_arrived()
        self._save()

    def add(self, one: OffsetMessage) -> None:
        """Add the next message. A message that has arrived before is passed over."""
        if one.offset < self.next_offset or (self._waiting and one.offset <= self._waiting[-1].offset):
            return
        if self._waiting and (len(self._waiting) >= self._batch or self._waiting_bytes + one.size_bytes > BATCH_BYTES):
            self.flush()
        self._waiting.append(one)
        self._waiting_bytes += one.size_bytes

    def flush(self) -> None:
        """Send what waits, and return when all of it is acknowledged or has been seen in the target."""
        if self._waiting and self._pace is not None:
            self._sleep(self._pace.take(len(self._waiting), self._clock()))
        deadline_s, pause_s = self._clock() + self._retry_s, SETTLE_S
        while self._waiting:
            try:
                receipt = self._target.send([one.message for one in self._waiting], self._queue)
            except InvalidMessageError as error:
                first, last = self._waiting[0].offset, self._waiting[-1].offset
                raise ReplayError(f"A message of {self._source}, offsets {first} to {last}, cannot be sent: {error}") from error
            except ClientError as error:
                if self._clock() + pause_s > deadline_s:
                    raise ReplayError(f"{self._queue} took no message for {self._retry_s:g} s: {error}") from error
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
                self._find_arrived()
            else:
                self._advance(self._waiting[-1].offset + 1, receipt.queue_offset + len(self._waiting))
        if self._clock() - self._saved_s >= SAVE_S:
            self._save()

    def close(self) -> None:
        self.flush()
        self._save()

    def _find_arrived(self) -> int:
        """Ask the target queue which messages have arrived, and drop them from those that wait. Return how many are new."""
        arrived = self._target.replayed_offsets(self._queue, self._look_from, self._source)
        new = {offset for offset in arrived if offset >= self.next_offset}
        if new:
            self._advance(max(new) + 1, self._look_from)
        return len(new)

    def _advance(self, next_offset: int, look_from: int) -> None:
        kept = [one for one in self._waiting if one.offset >= next_offset]
        self.sent += len(self._waiting) - len(kept)
        self._waiting, self._waiting_bytes = kept, sum(one.size_bytes for one in kept)
        self.next_offset, self._look_from = next_offset, look_from

    @property
    def sent_ever(self) -> int:
        """How many messages this replay has sent to the queue, by all tasks and runs."""
        return self._sent_before + self.sent

    def _save(self) -> None:
        self._file.write(
            ReplayProgress(next_offset=self.next_offset, target=self._queue, look_from=self._look_from, sent=self.sent_ever)
        )
        self._saved_s = self._clock()

"""Commits a staged batch so that each row is delivered exactly once, even if the driver dies between any two steps.

    read the ledger  ──another driver has taken over──►  stop
      │              ──this batch, or a later one, is committed──►  everything is delivered: roll back what was staged now
      │ this driver's first commit: write "opened", to take an epoch, and read the ledger again
      │              ──this batch was being committed: a replay──┐
      │ no entry, or an earlier batch                            │
      ▼                                                          ▼
    note the ends of the queues                             wait settleTime, then search the queues
    write "committing", with the ends and the handles       from the noted ends: which rows are there?
    read the ledger: is there a higher epoch?                    │
      ▼                                                          ▼
    END every half message                                  END the missing half messages of the *first* attempt,
      │     some got no answer: ────────────────────────►   roll back what was staged now
      ▼                                                          │
    write "committed"  ◄─────────────────────────────────────────┘

An END that is sent twice delivers twice, with Apache's brokers and ours. So no END is repeated before the queues have been
searched. A replay ends the half messages of the first attempt, whose handles are in the ledger, and not its own. So it does not
matter whether Spark repeats the rows in the same order. A replay uses its own half messages only if the broker no longer has the
first ones, because they are older than its files or were lost with it. A broker that is busy, or refuses for any other reason,
is asked again until `retryTimeout`.

While it sends ENDs, a driver looks for a higher epoch four times in each settleTime. A driver that takes over waits settleTime
before it searches the queues, so the older one has stopped by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.receipt import Receipt
from skyrocket.spark.errors import SparkSourceError
from skyrocket.spark.sink.fence import NO_FENCE, BatchPlace, Fence, run_label
from skyrocket.spark.sink.half_messages import HalfMessages
from skyrocket.spark.sink.handles import Handles, count_rows, only_rows, rows_of, without_half_messages, without_rows
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.ledger_entries import BatchCommitted, BatchCommitting, LedgerState, NoBatch, QueryLedger

log = logging.getLogger(__name__)

PAUSE_FIRST_MS: Final = 200  # after a round of ENDs that failed; doubled each time
PAUSE_MS_MAX: Final = 2_000
CHECKS_PER_SETTLE_TIME: Final = 4  # of the fence, while ENDs are sent


class CommitError(SparkSourceError):
    """A batch could not be committed completely. A restart of the query completes it; no row is lost or repeated."""


class FencedError(SparkSourceError):
    """Another driver has taken over this query, so this one must not commit anything."""


class CommitStep(Enum):
    ALREADY_COMMITTED = auto()  # everything was delivered: roll back what is staged
    FINISH = auto()  # an earlier driver began to commit this batch
    FINISH_EARLIER = auto()  # an earlier driver began to commit an earlier batch, which comes first
    BEGIN = auto()


def next_step(state: LedgerState, batch_id: int) -> CommitStep:
    """Return what to do with a batch, by what the ledger has about its query."""
    if isinstance(state, NoBatch) or (isinstance(state, BatchCommitted) and state.batch_id < batch_id):
        return CommitStep.BEGIN
    if state.batch_id > batch_id or isinstance(state, BatchCommitted):
        return CommitStep.ALREADY_COMMITTED
    return CommitStep.FINISH if state.batch_id == batch_id else CommitStep.FINISH_EARLIER


class BatchCommit:
    """The commit, or abort, of one batch of one query."""

    def __init__(
        self, half_messages: HalfMessages, ledger: SinkLedger, place: BatchPlace, *, settle_ms: int, retry_ms: int
    ) -> None:
        self._half_messages = half_messages
        self._ledger = ledger
        self._query_id = place.query_id
        self._batch_id = place.batch_id
        self._run = run_label(place.run_id)
        self._settle_ms = settle_ms
        self._retry_ms = retry_ms
        self._fence = NO_FENCE  # of this driver
        self._checked_ms = 0  # when the ledger was last read for a higher epoch

    async def commit(self, staged: Sequence[Handles]) -> None:
        found = await self._ledger.read(staged=staged)
        if self._run in found.fence.fenced:
            raise self._fenced_error(found.fence)
        step = next_step(found.state, self._batch_id)
        if step is CommitStep.BEGIN and not count_rows(staged):
            return
        if step is not CommitStep.ALREADY_COMMITTED:
            if found.fence.run != self._run:
                found = await self._take_over(found.fence, staged)
                step = next_step(found.state, self._batch_id)
            self._fence = found.fence
        if step is CommitStep.FINISH_EARLIER:
            assert isinstance(found.state, BatchCommitting)
            await self._finish(found.state, (), is_unknown=True)
            step = CommitStep.BEGIN
        if step is CommitStep.BEGIN:
            await self._begin(staged)
            return
        if step is CommitStep.FINISH:
            assert isinstance(found.state, BatchCommitting)
            used = await self._finish(found.state, staged, is_unknown=True)
            staged = without_half_messages(staged, used)
        await self._roll_back(staged)

    async def abort(self, staged: Sequence[Handles]) -> None:
        """Roll back what was staged, except what the ledger says is being committed: a restart completes that."""
        state = (await self._ledger.read(staged=staged)).state
        if isinstance(state, BatchCommitting):
            staged = without_half_messages(staged, state.handles)
        await self._roll_back(staged)

    # --- the fence

    async def _take_over(self, before: Fence, staged: Sequence[Handles]) -> QueryLedger:
        """Take the next epoch. Return the ledger as every driver of an earlier epoch has left it."""
        mine = before.next(self._run)
        opened = await self._ledger.write_opened(mine, (each.queue.broker_name for each in staged))
        found = await self._ledger.read(written=opened)
        if found.fence != mine:
            raise self._fenced_error(found.fence)
        return found

    async def _check_fence(self, written: Receipt | None = None) -> None:
        """Raise FencedError if another driver has taken over. Without an entry of our own, look only if it is time again."""
        now_ms = self._half_messages.now_ms()
        if written is None and now_ms - self._checked_ms < self._settle_ms / CHECKS_PER_SETTLE_TIME:
            return
        found = await self._ledger.read_fence(written)
        if found > self._fence:
            raise self._fenced_error(found)
        self._checked_ms = now_ms

    def _fenced_error(self, by: Fence) -> FencedError:
        return FencedError(
            f"Batch {self._batch_id} of query {self._query_id} is not committed: another driver has taken over the query "
            f"(run {by.run}, epoch {by.epoch}; this is run {self._run}). Only one driver at a time may use a checkpoint or a "
            f"writeId. Leave this one stopped, or stop the other one before a restart."
        )

    # --- a commit

    async def _begin(self, staged: Sequence[Handles]) -> None:
        if not count_rows(staged):
            return
        starts = await self._half_messages.fetch_queue_ends(dict.fromkeys(each.queue for each in staged))
        begun = BatchCommitting(self._batch_id, starts, staged)
        await self._record_handles(begun)
        await self._finish(begun, (), is_unknown=False)

    async def _record_handles(self, begun: BatchCommitting) -> None:
        """Write "committing". Before any END, look for a driver that took over meanwhile: it may not have seen the entry."""
        await self._check_fence(await self._ledger.write_committing(begun, self._fence))

    async def _finish(self, begun: BatchCommitting, spare: Sequence[Handles], *, is_unknown: bool) -> Sequence[Handles]:
        """END the half messages until all rows are delivered, and record the batch as committed.

        `is_unknown` says that some ENDs may have been sent already. Return the spare half messages that were used.
        """
        left, used = list(begun.handles), list[Handles]()
        pause_ms, deadline_ms = PAUSE_FIRST_MS, self._half_messages.now_ms() + self._retry_ms
        while count_rows(left):
            if is_unknown:
                await asyncio.sleep(self._settle_ms / 1000)
                delivered = await self._half_messages.find_delivered(begun.starts, {each.prefix for each in left})
                left = without_rows(left, delivered)
            ended = await self._half_messages.end(left, Outcome.COMMIT, self._check_fence)
            left, is_unknown = ended.left, bool(ended.unknown)
            if not left:
                break
            is_late = self._half_messages.now_ms() > deadline_ms
            gone = list(ended.gone) if is_late else await self._half_messages.find_expired(ended.gone)
            if gone and count_rows(spare) and not used:
                used = self._choose_replacement(begun, gone, spare)
                left = [*used, *without_half_messages(left, gone)]
                begun = await self._begin_again(begun, left)
                deadline_ms = self._half_messages.now_ms() + self._retry_ms
            elif gone or is_late:
                raise self._incomplete_error(
                    begun, f"{count_rows(left)} rows may not be delivered: {ended.failure or ended.refusal}"
                )
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        await self._ledger.write_committed(begun.batch_id, self._fence)
        return used

    def _choose_replacement(self, begun: BatchCommitting, gone: Sequence[Handles], spare: Sequence[Handles]) -> list[Handles]:
        """Return the half messages of a replay that replace those of the first attempt that no longer exist.

        If all are gone, nothing was delivered, and the replay replaces the whole batch. Otherwise its rows with the same ids
        replace them, which are the same rows only if Spark has repeated them in the same order.
        """
        missing = rows_of(gone)
        log.warning("%d of %d half messages no longer exist; the replay's replace them.", len(missing), count_rows(begun.handles))
        if len(missing) == count_rows(begun.handles):
            return list(spare)
        used = only_rows(spare, missing)
        if count_rows(used) < len(missing):
            has = f"the replay has {count_rows(used)} rows with their ids"
            raise self._incomplete_error(begun, f"Brokers no longer have {len(missing)} half messages, and {has}.")
        return used

    async def _begin_again(self, begun: BatchCommitting, left: Sequence[Handles]) -> BatchCommitting:
        """Record which half messages are left to commit, so that a restart continues with these."""
        new = dict.fromkeys(each.queue for each in left if each.queue not in begun.starts)
        starts = {**begun.starts, **await self._half_messages.fetch_queue_ends(new)}
        again = BatchCommitting(begun.batch_id, starts, left)
        await self._record_handles(again)
        return again

    async def _roll_back(self, staged: Sequence[Handles]) -> None:
        """Ask once for a rollback. A broker that does not get the request drops the half messages later."""
        if count_rows(staged):
            ended = await self._half_messages.end(staged, Outcome.ROLLBACK)
            left = count_rows(ended.not_done) + count_rows(ended.unknown)
            if left:
                log.info("%d staged rows were not rolled back; their brokers will drop them: %s", left, ended.failure)

    def _incomplete_error(self, begun: BatchCommitting, why: str) -> CommitError:
        return CommitError(
            f"Batch {begun.batch_id} of query {self._query_id} is not complete. Restart the query to complete it. {why}"
        )

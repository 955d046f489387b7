"""Commits a staged batch so that each row is delivered exactly once, even if the driver dies between any two steps.

    read the ledger  ──this batch, or a later one, is committed──►  everything is delivered: roll back what was staged now
      │              ──this batch was being committed: a replay──┐
      │ no entry, or an earlier batch                            │
      ▼                                                          ▼
    note the ends of the queues                             wait settleTime, then search the queues
    write "committing", with the ends and the handles       from the noted ends: which rows are there?
      ▼                                                          ▼
    END every half message                                  END the missing half messages of the *first* attempt,
      │     some got no answer: ────────────────────────►   roll back what was staged now
      ▼                                                          │
    write "committed"  ◄─────────────────────────────────────────┘

An END that is sent twice delivers twice, with Apache's brokers and ours. So no END is repeated before the queues have been
searched. A replay ends the half messages of the first attempt, whose handles are in the ledger, and not its own. So it does not
matter whether Spark repeats the rows in the same order. A replay uses its own half messages, matched by row id, only if a broker
no longer has the first ones because they are older than its files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from skyrocket.client.producer.transactions import Outcome
from skyrocket.spark.errors import SparkSourceError
from skyrocket.spark.sink.half_messages import HalfMessages
from skyrocket.spark.sink.handles import Handles, count_rows, only_rows, rows_of, without_half_messages, without_rows
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.ledger_entries import BatchCommitted, BatchCommitting, LedgerState, NoBatch

log = logging.getLogger(__name__)

REFUSALS_MAX: Final = 3  # in a row, for the same half messages
PAUSE_FIRST_MS: Final = 200  # after a round of ENDs that failed; doubled each time
PAUSE_MS_MAX: Final = 2_000


class CommitError(SparkSourceError):
    """A batch could not be committed completely. A restart of the query completes it; no row is lost or repeated."""


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
        self, half_messages: HalfMessages, ledger: SinkLedger, query_id: str, batch_id: int, *, settle_ms: int, retry_ms: int
    ) -> None:
        self._half_messages = half_messages
        self._ledger = ledger
        self._query_id = query_id
        self._batch_id = batch_id
        self._settle_ms = settle_ms
        self._retry_ms = retry_ms

    async def commit(self, staged: Sequence[Handles]) -> None:
        state = await self._ledger.read_state(self._query_id, staged)
        step = next_step(state, self._batch_id)
        if step is CommitStep.FINISH_EARLIER:
            assert isinstance(state, BatchCommitting)
            await self._finish(state, state.handles, (), is_unknown=True)
            step = CommitStep.BEGIN
        if step is CommitStep.BEGIN:
            if not count_rows(staged):
                return
            starts = await self._half_messages.fetch_queue_ends(dict.fromkeys(each.queue for each in staged))
            begun = BatchCommitting(self._batch_id, starts, staged)
            await self._ledger.write_committing(self._query_id, begun)
            await self._finish(begun, staged, (), is_unknown=False)
            return
        if step is CommitStep.FINISH:
            assert isinstance(state, BatchCommitting)
            used = await self._finish(state, state.handles, staged, is_unknown=True)
            staged = without_half_messages(staged, used)
        await self._roll_back(staged)

    async def abort(self, staged: Sequence[Handles]) -> None:
        """Roll back what was staged, except what the ledger says is being committed: a restart completes that."""
        state = await self._ledger.read_state(self._query_id, staged)
        if isinstance(state, BatchCommitting):
            staged = without_half_messages(staged, state.handles)
        await self._roll_back(staged)

    async def _finish(
        self, begun: BatchCommitting, handles: Sequence[Handles], spare: Sequence[Handles], *, is_unknown: bool
    ) -> Sequence[Handles]:
        """END the half messages until all rows are delivered, and record the batch as committed.

        `is_unknown` says that some ENDs may have been sent already. Return the spare half messages that were used.
        """
        left, used = list(handles), list[Handles]()
        refusals, pause_ms = 0, PAUSE_FIRST_MS
        deadline_ms = self._half_messages.now_ms() + self._retry_ms
        while count_rows(left):
            if is_unknown:
                await asyncio.sleep(self._settle_ms / 1000)
                delivered = await self._half_messages.find_delivered(begun.starts, {each.prefix for each in left})
                left = without_rows(left, delivered)
            ended = await self._half_messages.end(left, Outcome.COMMIT)
            left, is_unknown = [*ended.not_done, *ended.unknown], bool(ended.unknown)
            refusals = refusals + 1 if ended.refusal and ended.not_done else 0
            if refusals >= REFUSALS_MAX and count_rows(ended.not_done):
                if used or not count_rows(spare):
                    raise CommitError(
                        f"{self._describe(begun)}. A broker refuses to commit {count_rows(left)} rows: {ended.refusal}"
                    )
                missing = rows_of(ended.not_done)
                used = only_rows(spare, missing)
                log.warning("%d half messages no longer exist at their broker; those of the replay replace them.", len(missing))
                left = [*used, *ended.unknown]
                refusals = 0
            if left and self._half_messages.now_ms() > deadline_ms:
                why = ended.failure or ended.refusal
                raise CommitError(f"{self._describe(begun)}. {count_rows(left)} rows may not be delivered: {why}")
            if left:
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        await self._ledger.write_committed(self._query_id, begun.batch_id)
        return used

    async def _roll_back(self, staged: Sequence[Handles]) -> None:
        """Ask once for a rollback. A broker that does not get the request drops the half messages later."""
        if count_rows(staged):
            ended = await self._half_messages.end(staged, Outcome.ROLLBACK)
            left = count_rows(ended.not_done) + count_rows(ended.unknown)
            if left:
                log.info("%d staged rows were not rolled back; their brokers will drop them: %s", left, ended.failure)

    def _describe(self, begun: BatchCommitting) -> str:
        return f"Batch {begun.batch_id} of query {self._query_id} is not complete. Restart the query to complete it"

"""The commit of a staged batch: each row is delivered once, though the driver may die between any two of these steps.

    what does the ledger say?  ──committed this batch, or a later one──►  all is delivered: roll back what was staged now
      │                        ──was committing it: a replay──────┐
      │ nothing, or an earlier batch                              │
      ▼                                                           ▼
    note the ends of the queues                             let things settle, look into the queues from
    write "committing", with those and the handles          the noted ends on: which rows are there?
      ▼                                                           ▼
    END every half message                                  END those of the *first* attempt that are missing,
      │     one without an answer: ─────────────────────►   roll back what was staged now
      ▼                                                           │
    write "committed"  ◄──────────────────────────────────────────┘

An END that is sent twice delivers twice, at Apache's brokers and ours. So none is sent again without having looked. A replay ends
the half messages of the first attempt, whose handles are in the ledger, and not those that it has staged itself: whether Spark
gives rows in the same order again does not matter. Only where a broker no longer has the first ones (they are older than it keeps
its files) those of the replay are taken, by their ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, Protocol

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.spark.errors import SparkSourceError
from skyrocket.spark.sink.half_messages import Ended
from skyrocket.spark.sink.handles import Handles, count_of, only_rows, rows_of, without_halves, without_rows
from skyrocket.spark.sink.ledger_entry import Committed, Committing, Nothing, Standing

log = logging.getLogger(__name__)

REFUSALS_MAX: Final = 3  # in a row, of the same half messages
PAUSE_FIRST_MS: Final = 200  # after a round of ENDs that did not get through; doubled each time
PAUSE_MS_MAX: Final = 2_000


class CommitError(SparkSourceError):
    """A batch could not be committed, or not be finished. A restart of the query finishes it: nothing is lost or doubled."""


class Step(Enum):
    SEEN = auto()  # everything was delivered: roll back what is staged
    FINISH = auto()  # this batch was begun by somebody who is gone
    FINISH_OTHER = auto()  # an earlier one was, and comes first
    BEGIN = auto()


def next_step(told: Standing, batch_id: int) -> Step:
    if isinstance(told, Nothing) or (isinstance(told, Committed) and told.batch_id < batch_id):
        return Step.BEGIN
    if told.batch_id > batch_id or isinstance(told, Committed):
        return Step.SEEN
    return Step.FINISH if told.batch_id == batch_id else Step.FINISH_OTHER


class Ledger(Protocol):
    async def standing(self, query_id: str, staged: Sequence[Handles] = ()) -> Standing: ...

    async def committing(self, query_id: str, begun: Committing) -> None: ...

    async def committed(self, query_id: str, batch_id: int) -> None: ...


class Halves(Protocol):
    """What can be done with half messages, and found out about them."""

    async def ends_of_queues(self, queues: Iterable[Queue]) -> dict[Queue, int]: ...

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended: ...

    async def delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]: ...

    def now_ms(self) -> int: ...


class Commit:
    """Of one batch of one query."""

    def __init__(self, halves: Halves, ledger: Ledger, query_id: str, batch_id: int, *, settle_ms: int, retry_ms: int) -> None:
        self._halves = halves
        self._ledger = ledger
        self._query_id = query_id
        self._batch_id = batch_id
        self._settle_ms = settle_ms
        self._retry_ms = retry_ms

    async def commit(self, staged: Sequence[Handles]) -> None:
        told = await self._ledger.standing(self._query_id, staged)
        step = next_step(told, self._batch_id)
        if step is Step.FINISH_OTHER:
            assert isinstance(told, Committing)
            await self._finish(told, told.handles, (), in_doubt=True)
            step = Step.BEGIN
        if step is Step.BEGIN:
            if not count_of(staged):
                return
            starts = await self._halves.ends_of_queues(dict.fromkeys(each.queue for each in staged))
            begun = Committing(self._batch_id, starts, staged)
            await self._ledger.committing(self._query_id, begun)
            await self._finish(begun, staged, (), in_doubt=False)
            return
        if step is Step.FINISH:
            assert isinstance(told, Committing)
            taken = await self._finish(told, told.handles, staged, in_doubt=True)
            staged = without_halves(staged, taken)
        await self._roll_back(staged)

    async def abort(self, staged: Sequence[Handles]) -> None:
        """Those that the ledger says are being committed stay: a restart finishes them."""
        told = await self._ledger.standing(self._query_id, staged)
        if isinstance(told, Committing):
            staged = without_halves(staged, told.handles)
        await self._roll_back(staged)

    async def _finish(
        self, begun: Committing, handles: Sequence[Handles], spare: Sequence[Handles], *, in_doubt: bool
    ) -> Sequence[Handles]:
        """Until all rows are delivered; then the ledger is told. Which of the spare half messages had to be taken."""
        left, taken = list(handles), list[Handles]()
        refusals, pause_ms = 0, PAUSE_FIRST_MS
        deadline_ms = self._halves.now_ms() + self._retry_ms
        while count_of(left):
            if in_doubt:
                await asyncio.sleep(self._settle_ms / 1000)
                left = without_rows(left, await self._halves.delivered(begun.starts, {each.prefix for each in left}))
            ended = await self._halves.end(left, Outcome.COMMIT)
            left, in_doubt = [*ended.not_done, *ended.unknown], bool(ended.unknown)
            refusals = refusals + 1 if ended.refusal and ended.not_done else 0
            if refusals >= REFUSALS_MAX and count_of(ended.not_done):
                if taken or not count_of(spare):
                    raise CommitError(f"{self._named(begun)}: a broker no longer takes {count_of(left)} rows: {ended.refusal}")
                missing = rows_of(ended.not_done)
                taken = only_rows(spare, missing)
                log.warning("%d half messages are gone from their broker; those of the replay are taken.", len(missing))
                left = [*taken, *ended.unknown]
                refusals = 0
            if left and self._halves.now_ms() > deadline_ms:
                why = ended.trouble or ended.refusal
                raise CommitError(f"{self._named(begun)}: {count_of(left)} rows are not known to be delivered: {why}")
            if left:
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        await self._ledger.committed(self._query_id, begun.batch_id)
        return taken

    async def _roll_back(self, staged: Sequence[Handles]) -> None:
        """Told once: what a broker does not hear of, it gives up by itself."""
        if count_of(staged):
            ended = await self._halves.end(staged, Outcome.ROLLBACK)
            left = count_of(ended.not_done) + count_of(ended.unknown)
            if left:
                log.info("%d staged rows were not rolled back; their brokers will drop them: %s", left, ended.trouble)

    def _named(self, begun: Committing) -> str:
        return f"Batch {begun.batch_id} of query {self._query_id} is not finished, and a restart of the query will finish it"

"""A driver that dies in the middle of a commit: the real ledger and half messages, which stop working at a given step.

Each request, each ledger entry and each END is two steps: before it, and after it but before the driver knows its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.commit import BatchCommit
from skyrocket.spark.sink.event_loop import open_session
from skyrocket.spark.sink.half_messages import EndResult, HalfMessages
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.ledger_entries import BatchCommitting, LedgerEntry, LedgerState


class DiedError(BaseException):
    """A death that no code catches, like kill -9."""


class Life:
    """A number of steps until the driver dies."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        if self.left == 0:
            raise DiedError
        self.left -= 1


class MortalLedger(SinkLedger):
    def __init__(self, session: Session, options: SinkOptions, life: Life) -> None:
        super().__init__(session, options)
        self._life = life

    async def read_state(self, query_id: str, staged: Sequence[Handles] = ()) -> LedgerState:
        self._life.step()
        return await super().read_state(query_id, staged)

    async def write_committing(self, query_id: str, begun: BatchCommitting) -> None:
        self._life.step()
        await super().write_committing(query_id, begun)

    async def _write(self, entry: LedgerEntry) -> None:
        self._life.step()
        await super()._write(entry)
        self._life.step()


class MortalHalfMessages(HalfMessages):
    def __init__(self, session: Session, options: SinkOptions, life: Life) -> None:
        super().__init__(session, options)
        self._life = life

    async def fetch_queue_ends(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        self._life.step()
        return await super().fetch_queue_ends(queues)

    async def find_delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
        self._life.step()
        return await super().find_delivered(starts, prefixes)

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> EndResult:
        for each in handles:
            for at in range(len(each.rows)):
                self._life.step()
                which = each.rows == each.rows[at]
                ended = await super().end([each.select(which)], outcome)
                assert (ended.not_done, ended.unknown) == ([], []), ended
        self._life.step()
        return EndResult([], [])


async def mortal_commit(options: SinkOptions, staged: Sequence[Handles], life: Life, *, query: str, batch_id: int = 0) -> bool:
    """Return whether the driver lived to the end."""
    async with open_session(options) as session:
        half_messages, ledger = MortalHalfMessages(session, options, life), MortalLedger(session, options, life)
        commit = BatchCommit(
            half_messages, ledger, query, batch_id, settle_ms=options.settle_ms, retry_ms=options.cluster.retry_ms
        )
        try:
            await commit.commit(staged)
        except DiedError:
            return False
    return True

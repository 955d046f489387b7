"""A driver that dies in the middle of a commit: the real ledger and half messages, which stop working at a chosen step.

Each question, each entry of the ledger and each END is two steps: before it, and after it was done and before anybody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.commit import Commit
from skyrocket.spark.sink.event_loop import opened_session
from skyrocket.spark.sink.half_messages import ClusterHalves, Ended
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.ledger import Ledger
from skyrocket.spark.sink.ledger_entry import Committing, Entry, Standing


class DiedError(BaseException):
    """Nobody catches it, as nobody catches kill -9."""


class Life:
    """So many steps of it."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        if self.left == 0:
            raise DiedError
        self.left -= 1


class MortalLedger(Ledger):
    def __init__(self, session: Session, options: SinkOptions, life: Life) -> None:
        super().__init__(session, options)
        self._life = life

    async def standing(self, query_id: str, staged: Sequence[Handles] = ()) -> Standing:
        self._life.step()
        return await super().standing(query_id, staged)

    async def committing(self, query_id: str, begun: Committing) -> None:
        self._life.step()
        await super().committing(query_id, begun)

    async def _write(self, entry: Entry) -> None:
        self._life.step()
        await super()._write(entry)
        self._life.step()


class MortalHalves(ClusterHalves):
    def __init__(self, session: Session, options: SinkOptions, life: Life) -> None:
        super().__init__(session, options)
        self._life = life

    async def ends_of_queues(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        self._life.step()
        return await super().ends_of_queues(queues)

    async def delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
        self._life.step()
        return await super().delivered(starts, prefixes)

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended:
        for each in handles:
            for at in range(len(each.rows)):
                self._life.step()
                which = each.rows == each.rows[at]
                ended = await super().end([each.chosen(which)], outcome)
                assert (ended.not_done, ended.unknown) == ([], []), ended
        self._life.step()
        return Ended([], [])


async def mortal_commit(options: SinkOptions, staged: Sequence[Handles], life: Life, *, query: str, batch_id: int = 0) -> bool:
    """Whether it lived to the end."""
    async with opened_session(options) as session:
        halves, ledger = MortalHalves(session, options, life), MortalLedger(session, options, life)
        commit = Commit(halves, ledger, query, batch_id, settle_ms=options.settle_ms, retry_ms=options.cluster.retry_ms)
        try:
            await commit.commit(staged)
        except DiedError:
            return False
    return True

"""A driver that dies in the middle of a commit, or is overtaken by another one: the real ledger and half messages, with a pause.

Each request, each ledger entry and each END is two steps: before it, and after it but before the driver knows its result.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.session import Session
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.commit import BatchCommit, FencedError
from skyrocket.spark.sink.event_loop import open_session
from skyrocket.spark.sink.fence import BatchPlace, Fence
from skyrocket.spark.sink.half_messages import Check, EndResult, HalfMessages
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.ledger_entries import BatchCommitting, LedgerEntry, QueryLedger


class DiedError(BaseException):
    """A death that no code catches, like kill -9."""


class Life:
    """A number of steps until something happens to the driver: by default, it dies."""

    def __init__(self, steps: int, event: Callable[[], Awaitable[None]] | None = None) -> None:
        self.left = steps
        self.is_interrupted = False
        self._event = event

    async def step(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.is_interrupted = True
            if self._event is None:
                raise DiedError
            await self._event()


class MortalLedger(SinkLedger):
    def __init__(self, session: Session, options: SinkOptions, query_id: str, life: Life) -> None:
        super().__init__(session, options, query_id)
        self._life = life

    async def read(self, *, staged: Sequence[Handles] = (), written: Receipt | None = None) -> QueryLedger:
        await self._life.step()
        return await super().read(staged=staged, written=written)

    async def read_fence(self, written: Receipt | None = None) -> Fence:
        await self._life.step()
        return await super().read_fence(written)

    async def write_committing(self, begun: BatchCommitting, fence: Fence) -> Receipt:
        await self._life.step()
        return await super().write_committing(begun, fence)

    async def _write(self, entry: LedgerEntry) -> Receipt:
        await self._life.step()
        receipt = await super()._write(entry)
        await self._life.step()
        return receipt


async def no_check() -> None: ...


class MortalHalfMessages(HalfMessages):
    def __init__(self, session: Session, options: SinkOptions, life: Life) -> None:
        super().__init__(session, options)
        self._life = life

    async def fetch_queue_ends(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        await self._life.step()
        return await super().fetch_queue_ends(queues)

    async def find_delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
        await self._life.step()
        return await super().find_delivered(starts, prefixes)

    async def end(self, handles: Sequence[Handles], outcome: Outcome, check: Check = no_check) -> EndResult:
        gone: list[Handles] = []
        for each in handles:
            for at in range(len(each.rows)):
                await self._life.step()
                which = each.rows == each.rows[at]
                ended = await super().end([each.select(which)], outcome, check)
                assert ended.left == ended.gone, ended
                gone += ended.gone
        await self._life.step()
        return EndResult([], [], gone)


async def mortal_commit(options: SinkOptions, staged: Sequence[Handles], life: Life, *, query: str, batch_id: int = 0) -> bool:
    """Return whether the driver lived to the end, and was not fenced."""
    async with open_session(options) as session:
        half_messages, ledger = MortalHalfMessages(session, options, life), MortalLedger(session, options, query, life)
        place = BatchPlace(query, batch_id, str(uuid.uuid4()))
        commit = BatchCommit(half_messages, ledger, place, settle_ms=options.settle_ms, retry_ms=options.cluster.retry_ms)
        try:
            await commit.commit(staged)
        except (DiedError, FencedError):
            return False
    return True

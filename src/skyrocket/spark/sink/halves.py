"""The half messages of a cluster, for `committing`: ended, counted, looked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skyrocket.client.queues import Queue
from skyrocket.client.session import Session
from skyrocket.client.transactions import Outcome
from skyrocket.spark.sink.barrier import Barrier
from skyrocket.spark.sink.delivered import delivered_rows, last_offsets
from skyrocket.spark.sink.ending import Ended, Ending
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.patience import until_answered
from skyrocket.spark.sink_options import SinkOptions


class ClusterHalves:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._cluster = options.cluster
        self._ending = Ending(session, options)
        self._barrier = Barrier(session, options)

    def now_ms(self) -> int:
        return self._session.now_ms()

    async def end(self, handles: Sequence[Handles], outcome: Outcome) -> Ended:
        return await self._ending.end(handles, outcome)

    async def ends_of_queues(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """One past the last message of each, as they are now; what comes later is at or behind these."""
        wanted = list(queues)
        return await until_answered(
            self._session,
            self._cluster,
            "The ends of the topics' queues could not be found out",
            lambda: last_offsets(self._session, wanted),
        )

    async def delivered(self, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
        """Rows whose message is in one of these queues, at or behind its offset."""

        async def look() -> set[tuple[str, int]]:
            for queue in {queue.broker_name: queue for queue in starts}.values():
                await self._barrier.passed(queue)
            return await delivered_rows(self._session, starts, prefixes)

        what = "Which rows were delivered already could not be found out"
        return await until_answered(self._session, self._cluster, what, look)

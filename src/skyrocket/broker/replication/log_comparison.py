"""Compare the log of this slave with that of its master, and find where they part.

`common_point` decides which records to compare. This module reads them in a thread, and asks the master for its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from skyrocket.broker.replication.common_point import BoundarySearch
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.replica.log_reader import LogReader, LogSpan

T = TypeVar("T")


class RecordProbe(Protocol):
    """Somebody who knows the master's log."""

    async def has_records(self, records: Sequence[tuple[int, bytes]]) -> list[bool]:
        """Return for each offset and record whether the master's log has the same bytes there."""


class LogComparison:
    def __init__(self, reader: LogReader, executor: Executor, log: CommitLog, master: RecordProbe) -> None:
        self._reader = reader
        self._executor = executor
        self._log = log
        self._master = master

    async def find_common_end(self, master_start: int) -> int:
        """Return the end of the last record that both logs have; the start of the log when there is none.

        A blank at the end of the log counts if the master compares it together with the record before it. Apache's does not.
        """
        last_segment = await self._run(self._reader.spans_job(self._log.end - 1))
        if last_segment:
            last = last_segment[-1]
            if (await self._compare([LogSpan(last.offset, self._log.end - last.offset)]))[0]:
                return self._log.end
            if last.end < self._log.end and (await self._compare([last]))[0]:
                return last.end
        firsts = [span for span in await self._run(self._reader.first_spans()) if span.offset >= master_start]
        first = await self._search(firsts)
        if first is None:
            return self._log.start
        found = await self._search(await self._run(self._reader.spans_job(first.offset)))
        return first.end if found is None else found.end

    async def _search(self, spans: Sequence[LogSpan]) -> LogSpan | None:
        search = BoundarySearch(spans)
        while probes := search.next_probes():
            search.take_answers(await self._compare(probes))
        return search.last_equal

    async def _compare(self, spans: Sequence[LogSpan]) -> list[bool]:
        jobs = [self._reader.read_job(*span) for span in spans]
        records = await self._run(lambda: [job() for job in jobs])
        return await self._master.has_records([(span.offset, record) for span, record in zip(spans, records, strict=True)])

    async def _run(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, job)

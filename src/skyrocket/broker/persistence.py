"""The files of the broker's tables.

They are loaded at start. Topics and groups are saved at every change, offsets and other progress every few seconds and at the
end.

A topic is on disk before any client learns that it exists. Otherwise its messages could outlive it in a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.protocol.bodies import Body
from skyrocket.store.config_files import CONSUMER_OFFSETS, SUBSCRIPTION_GROUPS, TOPICS, ConfigFile, ConfigFiles
from skyrocket.store.errors import StoreError
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)

B = TypeVar("B", bound=Body)


class PersistentTable(Protocol[B]):
    """A table that is saved every few seconds, when it has changed."""

    @property
    def changes(self) -> int: ...

    def load(self, saved: B, /) -> None: ...

    def snapshot(self) -> B: ...


@dataclass(slots=True)
class _SavedTable(Generic[B]):
    file: ConfigFile[B]
    table: PersistentTable[B]
    saved_changes: int = 0  # changes that the file contains


class Persistence:
    def __init__(self, files: ConfigFiles, topics: TopicTable, groups: SubscriptionGroupTable, offsets: ConsumerOffsets) -> None:
        self._files = files
        self._topics = topics
        self._groups = groups
        self._rows: list[_SavedTable[Any]] = [_SavedTable(CONSUMER_OFFSETS, offsets)]
        self._saver: SupervisedTask | None = None

    def add_table(self, file: ConfigFile[B], table: PersistentTable[B]) -> None:
        """Load and save another table, in the way of the offsets."""
        self._rows.append(_SavedTable(file, table))

    def load(self) -> list[str]:
        """Fill the tables, and save their changes from now on.

        Return a sentence for each damaged file. Raise StoreError when a file and its backup cannot be read.
        """
        topics = self._files.load(TOPICS)
        groups = self._files.load(SUBSCRIPTION_GROUPS)
        problems = [topics.problem, groups.problem]
        if topics.body is not None:
            self._topics.load(topics.body)
        if groups.body is not None:
            self._groups.load(groups.body)
        for row in self._rows:
            loaded = self._files.load(row.file)
            problems.append(loaded.problem)
            if loaded.body is not None:
                row.table.load(loaded.body)
            row.saved_changes = row.table.changes
        self._topics.on_change.append(self.save_topics)
        self._groups.on_change.append(self.save_groups)
        return [problem for problem in problems if problem is not None]

    def save_topics(self) -> None:
        self._files.save(TOPICS, self._topics.snapshot())

    def save_groups(self) -> None:
        self._files.save(SUBSCRIPTION_GROUPS, self._groups.snapshot())

    def begin_save(self) -> Callable[[], None] | None:
        """Return a job that saves the current offsets and progress, in any thread; None when the files are up to date."""
        changed = [(row, row.table.changes, row.table.snapshot()) for row in self._rows if row.table.changes != row.saved_changes]
        if not changed:
            return None

        def run() -> None:
            for row, changes, snapshot in changed:
                self._files.save(row.file, snapshot)
                row.saved_changes = changes

        return run

    def save_all(self) -> None:
        """Save all tables in this thread."""
        self.save_topics()
        self.save_groups()
        job = self.begin_save()
        if job is not None:
            job()

    # --- in the event loop

    def start(self, every_ms: Callable[[], int]) -> None:
        self._saver = SupervisedTask("saving of tables", lambda: self._save_periodically(every_ms))

    async def close(self) -> None:
        """Save all tables, after any write that is under way."""
        if self._saver is not None:
            await self._saver.close()
            self._saver = None
        self.save_all()

    async def _save_periodically(self, every_ms: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(every_ms() / 1000)
            job = self.begin_save()
            if job is None:
                continue
            writing = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, job))
            try:
                await asyncio.shield(writing)
            except StoreError as error:
                log.warning("Consumer offsets could not be saved; the next attempt follows: %s", error)
            except asyncio.CancelledError:
                await asyncio.gather(writing, return_exceptions=True)
                raise

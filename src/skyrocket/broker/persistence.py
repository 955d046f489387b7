"""The files of the broker's tables.

They are loaded at start. `TableSaver` saves topics and groups when they change; offsets and other progress are saved every few
seconds, when a request waits for it, and at the end. All of it happens in a thread: the event loop never waits for a file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from skyrocket.broker.errors import TableFullError
from skyrocket.broker.limits import SAVE_WAITERS_MAX
from skyrocket.broker.table_saver import TableSaver, take_all_changes
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.protocol.bodies import Body, ConsumerOffsetManager
from skyrocket.store.config_files import CONSUMER_OFFSETS, SUBSCRIPTION_GROUPS, TOPICS, ConfigFile, ConfigFiles
from skyrocket.store.errors import StoreError
from skyrocket.store.table_text import TableChanges
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)

B = TypeVar("B", bound=Body)


class PersistentTable(Protocol[B]):
    """A small table that is saved every few seconds, when it has changed."""

    @property
    def changes(self) -> int: ...

    def load(self, saved: B, /) -> None: ...

    def snapshot(self) -> B: ...


@dataclass(slots=True)
class _SavedTable(Generic[B]):
    file: ConfigFile[B]
    table: PersistentTable[B]
    saved_changes: int = 0  # changes that the file contains

    @property
    def is_changed(self) -> bool:
        return self.table.changes != self.saved_changes


@dataclass(slots=True)
class _ProgressSave:
    """What one save of the offsets and small tables contains."""

    rows: list[tuple[_SavedTable[Any], int, Any]]  # with the changes that the snapshot contains
    offset_changes: int = 0
    offset_entries: TableChanges = field(default_factory=dict)
    offsets: ConsumerOffsetManager | None = None  # the small fields of the file


class Persistence:
    def __init__(self, files: ConfigFiles, topics: TopicTable, groups: SubscriptionGroupTable, offsets: ConsumerOffsets) -> None:
        self._files = files
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._saved_offset_changes = 0  # changes of the offsets that the file contains
        self._rows: list[_SavedTable[Any]] = []
        self._task: SupervisedTask | None = None
        self._saving = asyncio.Lock()
        self._waiting = 0  # for a save of progress
        self.saver = TableSaver(files, topics, groups)

    def add_table(self, file: ConfigFile[B], table: PersistentTable[B]) -> None:
        """Load and save a small table, at the times of the offsets."""
        self._rows.append(_SavedTable(file, table))

    def load(self) -> list[str]:
        """Fill the tables, and save their changes from now on.

        Return a sentence for each damaged file. Raise StoreError when a file and its backup cannot be read.
        """
        topics = self._files.load(TOPICS)
        groups = self._files.load(SUBSCRIPTION_GROUPS)
        offsets = self._files.load(CONSUMER_OFFSETS)
        problems = [topics.problem, groups.problem, offsets.problem]
        if topics.body is not None:
            self._topics.load(topics.body)
        if groups.body is not None:
            self._groups.load(groups.body)
        if offsets.body is not None:
            self._offsets.load(offsets.body)
        self._saved_offset_changes = self._offsets.changes
        for row in self._rows:
            loaded = self._files.load(row.file)
            problems.append(loaded.problem)
            if loaded.body is not None:
                row.table.load(loaded.body)
            row.saved_changes = row.table.changes
        self._topics.stages = True
        self._topics.on_change.append(self.saver.on_change)
        self._groups.on_change.append(self.saver.on_change)
        return [problem for problem in problems if problem is not None]

    # --- in the event loop

    def start(self, every_ms: Callable[[], int]) -> None:
        """Save in the background: topics and groups when they change, progress every `every_ms`."""
        self.saver.start()
        self._task = SupervisedTask("saving of offsets", lambda: self._save_periodically(every_ms))

    async def close(self) -> None:
        """Save all tables, after any write that is under way. Raise StoreError when that fails."""
        if self._task is not None:
            await self._task.close()
            self._task = None
        try:
            await self.saver.close()
        finally:
            await self._save_progress()

    async def _save_periodically(self, every_ms: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(every_ms() / 1000)
            writing = asyncio.ensure_future(self._save_progress())
            try:
                await asyncio.shield(writing)
            except StoreError as error:
                log.warning("Consumer offsets could not be saved; the next attempt follows: %s", error)
            except asyncio.CancelledError:
                await asyncio.gather(writing, return_exceptions=True)
                raise

    # --- offsets and other progress

    async def progress_saved(self) -> None:
        """Wait until all offsets so far are on disk. Raise StoreError when that fails, TableFullError when too many wait.

        Who waits for a save under way finds its changes saved by the next one: many share it.
        """
        if self._waiting >= SAVE_WAITERS_MAX:
            raise TableFullError(f"{self._waiting} requests already wait until the offsets are saved. Try again.")
        self._waiting += 1
        try:
            await self._save_progress()
        finally:
            self._waiting -= 1

    async def _save_progress(self) -> None:
        """Save what changed since the last time. Raise StoreError when that fails."""
        async with self._saving:
            await self._save_changed()

    async def _save_changed(self) -> None:
        save = _ProgressSave([(row, row.table.changes, row.table.snapshot()) for row in self._rows if row.is_changed])
        save.offset_changes = self._offsets.changes
        if save.offset_changes != self._saved_offset_changes:
            save.offset_entries = await take_all_changes(self._offsets)
        if not save.rows and not save.offset_entries:
            return
        save.offsets = self._offsets.rest_of_file()
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._write, save)
        except StoreError:
            self._offsets.put_back(save.offset_entries)
            raise
        self._saved_offset_changes = save.offset_changes

    def _write(self, save: _ProgressSave) -> None:
        """Write the files. Runs in a thread."""
        if save.offset_entries and save.offsets is not None:
            self._files.save_changes(CONSUMER_OFFSETS, save.offsets, save.offset_entries)
        for row, changes, snapshot in save.rows:
            self._files.save(row.file, snapshot)
            row.saved_changes = changes

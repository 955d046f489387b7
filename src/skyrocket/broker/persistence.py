"""The tables' files: read at start, topics and groups written at every change, offsets and other
progress every few seconds and at the end.

A topic is on disk before anyone hears that it exists: after a crash its messages would otherwise belong to nobody.
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

log = logging.getLogger(__name__)

B = TypeVar("B", bound=Body)


class Kept(Protocol[B]):
    """A table that is saved every few seconds, when it has changed."""

    @property
    def changes(self) -> int: ...

    def load(self, saved: B, /) -> None: ...

    def snapshot(self) -> B: ...


@dataclass(slots=True)
class _Row(Generic[B]):
    file: ConfigFile[B]
    table: Kept[B]
    saved: int = 0  # changes that the file has


class Persistence:
    def __init__(self, files: ConfigFiles, topics: TopicTable, groups: SubscriptionGroupTable, offsets: ConsumerOffsets) -> None:
        self._files = files
        self._topics = topics
        self._groups = groups
        self._rows: list[_Row[Any]] = [_Row(CONSUMER_OFFSETS, offsets)]
        self._keeper: asyncio.Task[None] | None = None

    def keep(self, file: ConfigFile[B], table: Kept[B]) -> None:
        """Have another table loaded, and saved like the offsets."""
        self._rows.append(_Row(file, table))

    def load(self) -> list[str]:
        """Fill the tables, and save their changes from now on. What was wrong with a file, in sentences; StoreError when nothing
        of it could be read."""
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
            row.saved = row.table.changes
        self._topics.on_change.append(self.save_topics)
        self._groups.on_change.append(self.save_groups)
        return [problem for problem in problems if problem is not None]

    def save_topics(self) -> None:
        self._files.save(TOPICS, self._topics.snapshot())

    def save_groups(self) -> None:
        self._files.save(SUBSCRIPTION_GROUPS, self._groups.snapshot())

    def begin_save(self) -> Callable[[], None] | None:
        """A job for any thread that saves offsets and the like as they are now; None when the files have them."""
        changed = [(row, row.table.changes, row.table.snapshot()) for row in self._rows if row.table.changes != row.saved]
        if not changed:
            return None

        def run() -> None:
            for row, changes, snapshot in changed:
                self._files.save(row.file, snapshot)
                row.saved = changes

        return run

    def save_all(self) -> None:
        """Here and now: at the end."""
        self.save_topics()
        self.save_groups()
        job = self.begin_save()
        if job is not None:
            job()

    # --- in the event loop

    def start(self, every_ms: Callable[[], int]) -> None:
        self._keeper = asyncio.get_running_loop().create_task(self._keep(every_ms))

    async def close(self) -> None:
        """Save everything. A write that is under way ends first."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        self.save_all()

    async def _keep(self, every_ms: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(every_ms() / 1000)
            job = self.begin_save()
            if job is None:
                continue
            writing = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, job))
            try:
                await asyncio.shield(writing)
            except StoreError as error:
                log.warning("Offsets were not saved, and are tried again: %s", error)
            except asyncio.CancelledError:
                await asyncio.gather(writing, return_exceptions=True)
                raise

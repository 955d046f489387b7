"""The tables' files: read at start, topics and groups written at every change, offsets every few seconds and at the end.

A topic is on disk before anyone hears that it exists: after a crash its messages would otherwise belong to nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from skyrocket.broker.consumer_offsets import ConsumerOffsets
from skyrocket.broker.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.topics import TopicTable
from skyrocket.store.config_files import CONSUMER_OFFSETS, SUBSCRIPTION_GROUPS, TOPICS, ConfigFiles
from skyrocket.store.errors import StoreError

log = logging.getLogger(__name__)


class Persistence:
    def __init__(self, files: ConfigFiles, topics: TopicTable, groups: SubscriptionGroupTable, offsets: ConsumerOffsets) -> None:
        self._files = files
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._offsets_saved = 0  # changes that the file has
        self._keeper: asyncio.Task[None] | None = None

    def load(self) -> list[str]:
        """Fill the tables, and save their changes from now on. What was wrong with a file, in sentences; StoreError when nothing
        of it could be read."""
        topics = self._files.load(TOPICS)
        groups = self._files.load(SUBSCRIPTION_GROUPS)
        offsets = self._files.load(CONSUMER_OFFSETS)
        if topics.body is not None:
            self._topics.load(topics.body)
        if groups.body is not None:
            self._groups.load(groups.body)
        if offsets.body is not None:
            self._offsets.load(offsets.body)
        self._offsets_saved = self._offsets.changes
        self._topics.on_change.append(self.save_topics)
        self._groups.on_change.append(self.save_groups)
        return [loaded.problem for loaded in (topics, groups, offsets) if loaded.problem is not None]

    def save_topics(self) -> None:
        self._files.save(TOPICS, self._topics.snapshot())

    def save_groups(self) -> None:
        self._files.save(SUBSCRIPTION_GROUPS, self._groups.snapshot())

    def begin_save_offsets(self) -> Callable[[], None] | None:
        """A job for any thread that saves the offsets as they are now; None when the file has them."""
        changes = self._offsets.changes
        if changes == self._offsets_saved:
            return None
        snapshot = self._offsets.snapshot()

        def run() -> None:
            self._files.save(CONSUMER_OFFSETS, snapshot)
            self._offsets_saved = changes

        return run

    def save_all(self) -> None:
        """Here and now: at the end."""
        self.save_topics()
        self.save_groups()
        job = self.begin_save_offsets()
        if job is not None:
            job()

    # --- in the event loop

    def start(self, every_ms: Callable[[], int]) -> None:
        self._keeper = asyncio.get_running_loop().create_task(self._keep_offsets(every_ms))

    async def close(self) -> None:
        """Save everything. A write that is under way ends first."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        self.save_all()

    async def _keep_offsets(self, every_ms: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(every_ms() / 1000)
            job = self.begin_save_offsets()
            if job is None:
                continue
            writing = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, job))
            try:
                await asyncio.shield(writing)
            except StoreError as error:
                log.warning("The offsets were not saved: %s", error)
            except asyncio.CancelledError:
                await asyncio.gather(writing, return_exceptions=True)
                raise

"""Saves topics and groups in the background, so that the event loop never waits for their files.

    a change ──▶ [until INTERVAL_MS after the last save, unless somebody waits for it] ──▶ a thread encodes what changed,
    writes and syncs the files ──▶ staged topics count ──▶ whoever waited continues

Changes in the meantime go with the next save. A save that somebody waits for begins at once, or when the one under way has ended
and as much time has passed again: files take at most half of the time, however many changes there are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from skyrocket.broker.errors import TableFullError
from skyrocket.broker.limits import SAVE_WAITERS_MAX
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.protocol.bodies import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from skyrocket.store.config_files import SUBSCRIPTION_GROUPS, TOPICS, ConfigFiles
from skyrocket.store.errors import ConfigFileError, StoreError
from skyrocket.store.table_text import TableChanges
from skyrocket.supervised_task import SupervisedTask, failure_of

log = logging.getLogger(__name__)

INTERVAL_MS: Final = 1_000  # between two saves that nobody waits for
ENTRIES_AT_ONCE: Final = 10_000  # taken from a table in one turn of the loop

Waiter = Callable[[StoreError | None], None]
"""Called after a save, with the error if it failed."""


class ChangingTable(Protocol):
    def take_changes(self, most: int) -> TableChanges: ...


async def take_all_changes(table: ChangingTable) -> TableChanges:
    """Take the changes of a table, some in each turn of the loop."""
    changes: TableChanges = {}
    while more := table.take_changes(ENTRIES_AT_ONCE):
        merge_changes(changes, more)
        await asyncio.sleep(0)
    return changes


def merge_changes(changes: TableChanges, more: TableChanges) -> None:
    """Add `more` to `changes`; entries of `more` are newer."""
    for table, entries in more.items():
        changes.setdefault(table, {}).update(entries)


@dataclass(slots=True)
class _Save:
    """What one save contains, and how it ended."""

    topics: TopicConfigSerializeWrapper
    staged: TableChanges
    waiters: list[Waiter]
    topic_changes: TableChanges = field(default_factory=dict)
    group_changes: TableChanges = field(default_factory=dict)
    groups: SubscriptionGroupWrapper | None = None
    topics_error: StoreError | None = None
    groups_error: StoreError | None = None


class TableSaver:
    def __init__(
        self, files: ConfigFiles, topics: TopicTable, groups: SubscriptionGroupTable, interval_ms: int = INTERVAL_MS
    ) -> None:
        self._files = files
        self._topics = topics
        self._groups = groups
        self._interval_s = interval_ms / 1000
        self._waiters: list[Waiter] = []
        self._is_changed = False
        self._closing = False
        self._woken = asyncio.Event()
        self._task: SupervisedTask | None = None
        self._may_begin_s = 0.0  # when a save that somebody waits for may begin, by the monotonic clock
        self._due_s = 0.0  # when any other save may begin
        self._last_error: str | None = None  # logged once, not at every attempt

    def on_change(self) -> None:
        self._is_changed = True
        self._woken.set()

    # --- waiting for a save

    def when_saved(self, then: Waiter) -> None:
        """Call `then` when all changes so far are on disk, or could not be saved. Raise TableFullError when too many wait.

        Staged topics count when it is called, and the loop serves nobody in between.
        """
        if self._task is None:
            then(self._save_now())
            return
        if len(self._waiters) >= SAVE_WAITERS_MAX:
            raise TableFullError(f"{len(self._waiters)} requests already wait until the topics and groups are saved. Try again.")
        self._waiters.append(then)
        self._woken.set()

    async def wait_until_saved(self) -> None:
        """Wait until all changes so far are on disk. Raise StoreError when they could not be saved."""
        ended: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.when_saved(lambda error: None if ended.done() else ended.set_result(error))
        error = await ended
        if error is not None:
            raise error

    # --- in the event loop

    def start(self) -> None:
        self._task = SupervisedTask("saving of topics and groups", self._run)

    async def close(self) -> None:
        """Finish the save under way, and save what changed since. Raise StoreError when that fails."""
        self._closing = True
        self._woken.set()
        if self._task is not None:
            await self._task.wait()
            self._task = None
        error = self._save_now()
        if error is not None:
            raise error

    async def _run(self) -> None:
        while not self._closing:
            begin_s = self._may_begin_s if self._waiters else self._due_s if self._is_changed else None
            wait_s = None if begin_s is None else begin_s - time.monotonic()
            if wait_s is not None and wait_s <= 0:
                await self._save()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            self._woken.clear()

    async def _save(self) -> None:
        save = self._begin()
        save.topic_changes = await take_all_changes(self._topics)
        save.group_changes = await take_all_changes(self._groups)
        save.groups = self._groups.rest_of_file()
        began_s = time.monotonic()
        failure = await asyncio.get_running_loop().run_in_executor(None, failure_of, self._write, save)
        if failure is not None:
            save.topics_error = save.groups_error = ConfigFileError(f"Saving topics and groups failed: {failure!r}.")
        ended_s = time.monotonic()
        self._may_begin_s = ended_s + (ended_s - began_s)
        self._due_s = max(ended_s + self._interval_s, self._may_begin_s)
        self._finish(save)

    # --- one save

    def _save_now(self) -> StoreError | None:
        """Save in this thread: nobody is served meanwhile."""
        save = self._begin()
        save.topic_changes = self._topics.take_changes(2**31)
        while more := self._groups.take_changes(2**31):
            merge_changes(save.group_changes, more)
        save.groups = self._groups.rest_of_file()
        self._write(save)
        self._finish(save)
        return save.topics_error or save.groups_error

    def _begin(self) -> _Save:
        """Take who waits, and what they wait for. Entries that changed otherwise can be taken later: they count already."""
        self._is_changed = False
        waiters, self._waiters = self._waiters, []
        return _Save(*self._topics.begin_save(), waiters)

    def _write(self, save: _Save) -> None:
        """Write the files that have to change. Runs in a thread."""
        merge_changes(save.topic_changes, save.staged)
        try:
            if save.topic_changes:
                self._files.save_changes(TOPICS, save.topics, save.topic_changes)
        except StoreError as error:
            save.topics_error = error
        try:
            if save.group_changes and save.groups is not None:
                self._files.save_changes(SUBSCRIPTION_GROUPS, save.groups, save.group_changes)
        except StoreError as error:
            save.groups_error = error

    def _finish(self, save: _Save) -> None:
        if save.topics_error is None:
            self._topics.finish_save()
        else:
            self._topics.fail_save()
            self._topics.put_back(save.topic_changes)
        if save.groups_error is not None:
            self._groups.put_back(save.group_changes)
        error = save.topics_error or save.groups_error
        if error is not None:
            self._is_changed = True
            waiters, self._waiters = self._waiters, []  # what they staged is dropped too: it builds on what failed
            save.waiters += waiters
        if error is not None and str(error) != self._last_error:
            log.warning("Topics and groups could not be saved; the broker tries again every second: %s", error)
        self._last_error = None if error is None else str(error)
        for waiter in save.waiters:
            failure = failure_of(waiter, error)
            if failure is not None:
                log.error("A request that waited for a save failed.", exc_info=failure)

"""Deleted topics: from which position of the log on a topic's messages count again.

Deleting a topic deletes its queues. Its messages stay in the log until they expire, and recovery must not bring them back when it
reads the log again: after a crash, or when queues or index were lost. So a deletion is remembered, beside the queues:

    consumequeue.deleted/
        00000000000000123456/        the end of the log when topics were deleted
            topics/orders            remembers the deletion until the log starts behind it
            queues/orders/0/…        the queues, moved here at once and removed a little later

Moving the queues is one rename. It is what deletes the topic, also if the process is killed right after. The mark in `topics` and
the syncs that make all of it survive a power failure follow in a thread, before the deletion is acknowledged. The queues are
removed after the next checkpoint: until then the old one counts them.

Apache's broker does not know this directory. After a clean stop it does not bring a topic back either; after a kill its recovery
reads the last segment of the log again, and may write queues for messages of a topic that was deleted a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from skyrocket.store.files import Files
from skyrocket.store.log.segments import segment_name

_MARK = b"Messages of this topic that lie before this position of the log are deleted.\n"


class DeletedTopics:
    def __init__(self, files: Files, directory: str, queues_directory: str) -> None:
        self._files = files
        self._directory = directory
        self._queues_directory = queues_directory
        self._positions: dict[str, int] = {}
        self.latest = 0  # the last position of all: messages from here on are not deleted
        self._unremoved: list[str] = []  # directories of moved queues that are still on disk

    def load(self) -> None:
        """Read what is remembered on disk."""
        for position in self._positions_on_disk():
            directory = self._directory_of(position)
            moved = self._files.names(f"{directory}/queues")
            self._unremoved += [f"{directory}/queues/{topic}" for topic in moved]
            for topic in (*moved, *self._files.names(f"{directory}/topics")):
                self._remember(topic, position)

    def _positions_on_disk(self) -> list[int]:
        names = self._files.names(self._directory)
        return [int(name) for name in names if len(name) == len(segment_name(0)) and name.isascii() and name.isdigit()]

    def _remember(self, topic: str, position: int) -> None:
        self._positions[topic] = max(position, self._positions.get(topic, 0))
        self.latest = max(position, self.latest)

    # --- lookups

    def position_of(self, topic: str) -> int:
        """Return the log position before which the topic's messages are deleted; 0 for a topic that was never deleted."""
        return self._positions.get(topic, 0)

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Whether a message of the log was deleted with its topic."""
        return physical_offset < self.latest and physical_offset < self._positions.get(topic, 0)

    @property
    def positions(self) -> Mapping[str, int]:
        """The position of each deleted topic."""
        return self._positions

    def moved_directories(self) -> list[str]:
        """Return the directories with moved queues that are still on disk. Each is laid out like that of the live queues."""
        return sorted({moved.rpartition("/")[0] for moved in self._unremoved})

    # --- changes

    def delete(self, topic: str, position: int) -> Callable[[], None]:
        """Delete a topic's queues on disk and its messages before `position`. Raise OSError when that fails.

        Return a job for any thread, which makes it survive a power failure.
        """
        directory = self._directory_of(position)
        moved = f"{directory}/queues/{topic}"
        if self._files.exists(f"{self._queues_directory}/{topic}"):
            if self._files.exists(moved):
                self._files.remove(moved)  # deleted twice, and nothing was appended in between
            self._files.move(f"{self._queues_directory}/{topic}", moved)
            self._unremoved.append(moved)
        before = self._positions.get(topic, position)
        self._remember(topic, position)

        def sync() -> None:
            self._files.replace(f"{directory}/topics/{topic}", _MARK)
            for changed in (directory, self._directory, self._queues_directory):
                with suppress(FileNotFoundError):  # before the first message there are no queues
                    self._files.sync_directory(changed)
            if before < position:
                self._files.remove(f"{self._directory_of(before)}/topics/{topic}")

        return sync

    def take_unremoved(self) -> list[str]:
        """Return the directories of moved queues. The caller removes them, after a checkpoint that does not count them."""
        unremoved, self._unremoved = self._unremoved, []
        return unremoved

    def put_back(self, directories: list[str]) -> None:
        """Keep directories of moved queues after all: the checkpoint was not written."""
        self._unremoved += directories

    def shorten(self, log_end: int) -> None:
        """Move deletions that lie behind the end of the log there: new messages are written before the old position."""
        for topic, position in list(self._positions.items()):
            if position > log_end:
                self._files.replace(f"{self._directory_of(log_end)}/topics/{topic}", _MARK)
                self._positions[topic] = log_end
        self.latest = max(self._positions.values(), default=0)
        for position in self._positions_on_disk():
            if position > log_end:
                self._files.remove(f"{self._directory_of(position)}/topics")

    def expire(self, log_start: int) -> list[str]:
        """Forget deletions at or before the start of the log. Return their directories. The caller removes them."""
        expired = sorted({position for position in self._positions.values() if position <= log_start})
        if expired:
            self._positions = {topic: position for topic, position in self._positions.items() if position > log_start}
        return [self._directory_of(position) for position in expired]

    def sweep(self, log_start: int) -> None:
        """Forget deletions at or before the start of the log, and remove all of their directories."""
        self.expire(log_start)
        for position in self._positions_on_disk():
            if position <= log_start:
                self._files.remove(self._directory_of(position))

    def _directory_of(self, position: int) -> str:
        return f"{self._directory}/{segment_name(position)}"

"""All consume queues of a store, by topic and queue id. A queue is a small object; its files are opened only when needed.

New entries are gathered in memory, for all queues together within a bound, and written late: a message costs no write of its own,
however many queues the messages of an append have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import QueueNameError, StoreFormatError
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.message import UNQUEUED, AppendRequest, DispatchFields
from skyrocket.store.queues.consume_queue import ENTRY, ENTRY_BYTES, ConsumeQueue, QueueEntry
from skyrocket.store.retention.expired_files import ExpiredFile

_NAME_BYTES_MAX = 255  # of a directory name
QUEUE_LATE_BYTES_MAX = 64 * 1024  # of one queue, in memory only: then a write costs little for each entry
NEW_FILES_AT_ONCE = 8  # a busy file system takes a millisecond to create one


class QueueKey(NamedTuple):
    topic: str
    queue_id: int


def _pack_queue_entries(dispatches: Sequence[DispatchFields]) -> list[tuple[tuple[str, int], int, bytes]]:
    """Pack queue entries into runs, in the order in which they begin.

    A run is (queue, queue offset of the first entry, packed entries). A queue gets a second run when offsets are missing in
    between: recovery has skipped damage.
    """
    runs: list[tuple[tuple[str, int], int, list[bytes]]] = []
    last: dict[tuple[str, int], tuple[int, list[bytes]]] = {}
    pack = ENTRY.pack
    for topic, queue_id, queue_offset, physical_offset, size, code, _, _, sys_flag in dispatches:
        if sys_flag and sys_flag & TRANSACTION_MASK in UNQUEUED:
            continue
        key = (topic, queue_id)
        run = last.get(key)
        if run is None or queue_offset != run[0] + len(run[1]):
            last[key] = run = (queue_offset, [])
            runs.append((key, *run))
        run[1].append(pack(physical_offset, size, code))
    return [(key, queue_offset, b"".join(packed)) for key, queue_offset, packed in runs]


def _begins_anew(queue: ConsumeQueue, queue_offset: int, packed: bytes) -> bool:
    """Whether entries for offsets that a queue already has belong to other messages, which lie behind all of the queue's.

    So it is where the master of this broker deleted the topic and created it again. Entries of messages that the queue has
    already come again when recovery reads the log again.
    """
    physical_offset = ENTRY.unpack_from(packed)[0]
    known, last = queue.entry(queue_offset), queue.entry(queue.max_offset - 1)
    if known is not None and known.physical_offset == physical_offset:
        return False
    return last is not None and last.physical_offset < physical_offset


pack_queue_entries = twin("dispatch_entries", _pack_queue_entries)


class ConsumeQueues:
    def __init__(
        self, files: Files, opened: OpenFiles, directory: str, entries_per_file: int, reads: ColdReads | None = None
    ) -> None:
        self._files = files
        self._opened = opened
        self._directory = directory
        self._entries_per_file = entries_per_file
        self._reads = reads
        # Keys are QueueKey or plain tuples: both compare equal, and a tuple is cheaper to create.
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._next: dict[tuple[str, int], int] = {}  # the queue offset of the next appended message; ahead of the entries
        self._late: dict[ConsumeQueue, None] = {}  # queues with entries that are only in memory, oldest first
        self.late_bytes = 0  # of these entries
        self.crowded: dict[ConsumeQueue, None] = {}  # queues with so many of them that they are written at once

    def load(self, is_sound: Callable[[QueueKey, int, QueueEntry], bool] | None = None) -> bool:
        """Load all queues from disk. After a crash, `is_sound` says which entries can be trusted.

        Return False when the files of a queue do not fit together (one is missing, or has a wrong size) and were deleted.
        """
        all_fit = True
        for topic in self._files.names(self._directory):
            for name in self._files.names(f"{self._directory}/{topic}"):
                if name.isdigit():
                    key = QueueKey(topic, int(name))
                    try:
                        self._load(key, is_sound)
                    except StoreFormatError:
                        self._queues.pop(key).remove()
                        all_fit = False
        return all_fit

    def _load(self, key: QueueKey, is_sound: Callable[[QueueKey, int, QueueEntry], bool] | None) -> None:
        queue = self._make(key)
        if is_sound is None:
            queue.load()
        else:
            queue.load(lambda offset, entry: is_sound(key, offset, entry))
            queue.truncate(queue.max_offset)
            if not queue.max_offset:
                self._queues.pop(key).remove()

    def __len__(self) -> int:
        """Count the queues that have ever had an entry."""
        return sum(queue.max_offset > 0 for queue in self._queues.values())

    @property
    def entry_count(self) -> int:
        """The sum of the maximum offsets of all queues."""
        return sum(queue.max_offset for queue in self._queues.values())

    def count_in(self, directories: Iterable[str]) -> tuple[int, int]:
        """Count the queues in other directories, such as those of deleted topics, and the sum of their maximum offsets."""
        queue_count = entry_count = 0
        for directory in directories:
            others = ConsumeQueues(self._files, self._opened, directory, self._entries_per_file)
            others.load()
            queue_count, entry_count = queue_count + len(others), entry_count + others.entry_count
            for queue in others.all_queues():
                queue.forget()
        return queue_count, entry_count

    def read_last_entries(self) -> list[QueueEntry]:
        """Read the last entry of each queue from disk, before the queues are loaded."""
        others = ConsumeQueues(self._files, self._opened, self._directory, self._entries_per_file)
        others.load()
        found = [entry for queue in others.all_queues() if (entry := queue.entry(queue.max_offset - 1)) is not None]
        for queue in others.all_queues():
            queue.forget()
        return found

    def __iter__(self) -> Iterator[tuple[QueueKey, ConsumeQueue]]:
        return ((QueueKey(*key), queue) for key, queue in self._queues.items())

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def next_offset(self, key: tuple[str, int]) -> int:
        """Return the queue offset of the next appended message."""
        found = self._next.get(key)
        if found is None:
            queue = self._queues.get(key)
            if queue is None and not is_directory_name(key):
                raise QueueNameError(f"Topic {key[0]!r} and queue id {key[1]} cannot be names of directories.")
            found = 0 if queue is None else queue.max_offset
        return found

    def take_offsets(self, messages: Sequence[AppendRequest]) -> tuple[list[int], dict[tuple[str, int], int]]:
        """Assign a queue offset to each message. Also return the next free offset of each queue, for `reserve_offsets`."""
        taken: dict[tuple[str, int], int] = {}
        offsets: list[int] = []
        for topic, queue_id, _, _, _, sys_flag, _ in messages:
            if sys_flag and sys_flag & TRANSACTION_MASK in UNQUEUED:
                offsets.append(0)
                continue
            key = (topic, queue_id)
            offset = taken.get(key)
            if offset is None:
                offset = self.next_offset(key)
            taken[key] = offset + 1
            offsets.append(offset)
        return offsets, taken

    def reserve_offsets(self, offsets: dict[tuple[str, int], int]) -> None:
        """Set the next free offset of each queue."""
        self._next.update(offsets)

    def free_offsets(self, offsets: dict[tuple[str, int], int]) -> None:
        """Take back the offsets of messages that are gone from the log before they were confirmed."""
        for key, offset in offsets.items():
            if offset < self._next.get(key, 0):
                self._next[key] = offset

    def put(self, dispatches: Sequence[DispatchFields]) -> dict[tuple[str, int], None]:
        """Append the entries of confirmed messages. Return the queues that grew."""
        queues, next_offsets, late = self._queues, self._next, self._late
        runs = pack_queue_entries(dispatches)
        for key, queue_offset, packed in runs:  # with thousands of queues, a run of each message
            queue, end = queues.get(key), queue_offset + len(packed) // ENTRY_BYTES
            if queue is None or queue.max_offset != queue_offset or next_offsets.get(key, 0) < end:
                self._append(key, queue_offset, packed)
                continue
            # The entries follow the last one of their queue: what `_append` does then, without a call.
            if not queue.late:
                late[queue] = None
            queue.late += packed
            queue.max_offset = end
            self.late_bytes += len(packed)
            if len(queue.late) >= QUEUE_LATE_BYTES_MAX:
                self.crowded[queue] = None
        return dict.fromkeys([key for key, _, _ in runs])

    def _append(self, key: tuple[str, int], queue_offset: int, packed: bytes) -> None:
        queue = self._queues.get(key)
        if queue is None and not is_directory_name(key):
            return  # from a damaged record that no check detected: its topic cannot be a directory
        queue = queue or self._make(key)
        if queue_offset < queue.max_offset and _begins_anew(queue, queue_offset, packed):
            queue = self._begin_anew(key, queue, queue_offset)
        added = queue.append(queue_offset, packed)
        if added:
            self.late_bytes += added
            late_bytes = len(queue.late)
            if late_bytes == added:
                self._late[queue] = None
            if late_bytes >= QUEUE_LATE_BYTES_MAX:
                self.crowded[queue] = None
        if self._next.get(key, 0) < queue.max_offset:
            self._next[key] = queue.max_offset

    def _begin_anew(self, key: tuple[str, int], queue: ConsumeQueue, queue_offset: int) -> ConsumeQueue:
        """Drop the entries from `queue_offset` on: the messages that come have their offsets."""
        self._write_late(queue)
        self._next.pop(key, None)
        if queue_offset > queue.min_offset:
            queue.truncate(queue_offset)
            return queue
        self._queues.pop(key).remove()
        return self._make(key)

    # --- late writes

    @property
    def late_count(self) -> int:
        """How many queues have entries that are only in memory."""
        return len(self._late)

    def write_late(self, most: int) -> int:
        """Write the entries of up to `most` queues, those that wait longest first. Return the number of queues.

        It creates at most NEW_FILES_AT_ONCE files. After an error the entries stay in memory for the next call.
        """
        written = created = 0
        for queue in list(islice(self._late, most)):
            created += queue.needs_file
            if created > NEW_FILES_AT_ONCE:
                break
            self._write_late(queue)
            written += 1
        return written

    def write_crowded(self) -> None:
        """Write the entries of queues with many of them."""
        for queue in list(self.crowded):
            self._write_late(queue)

    def ensure_directory(self, topic: str) -> None:
        """Write the entries of one queue of a topic, if all of them are in memory only: then the topic has a directory."""
        if not self._files.exists(f"{self._directory}/{topic}"):
            for queue in [queue for key, queue in self._queues.items() if key[0] == topic and queue.late][:1]:
                self._write_late(queue)

    def _write_late(self, queue: ConsumeQueue) -> None:
        late_bytes = len(queue.late)
        queue.write_late()
        self.late_bytes -= late_bytes
        self._forget_late(queue)

    def _forget_late(self, queue: ConsumeQueue) -> None:
        self.late_bytes -= len(queue.late)
        self._late.pop(queue, None)
        self.crowded.pop(queue, None)

    # --- shrinking

    def truncate(self, key: tuple[str, int], queue_offset: int) -> None:
        """Delete the entries from `queue_offset` on: recovery writes them again."""
        queue = self._queues.get(key)
        if queue is not None and queue.max_offset > queue_offset:
            queue.truncate(queue_offset)
        self._next.pop(key, None)

    def cut(self, log_end: int) -> None:
        """Delete the entries of messages at or behind `log_end`. A queue that had no others is removed."""
        for key, queue in list(self._queues.items()):
            self._write_late(queue)
            kept = queue.find_minimum(log_end, queue.entry)
            if kept <= queue.min_offset:
                self._queues.pop(key).remove()
            elif kept < queue.max_offset:
                queue.truncate(kept)
        self._next.clear()

    def expire(self, log_start: int) -> list[ExpiredFile]:
        """Raise the minimum of each queue to its first message at or behind `log_start`. Return the files that lie before it."""
        return [file for queue in self._queues.values() for file in queue.expire(log_start)]

    def expire_late(self, log_start: int) -> list[ExpiredFile]:
        """Like `expire`, for queues whose messages expire before their entries are written: no file has these entries."""
        return [file for queue in self._late if queue.has_late_before(log_start) for file in queue.expire(log_start)]

    def all_queues(self) -> list[ConsumeQueue]:
        return list(self._queues.values())

    def forget_topic(self, topic: str) -> tuple[int, int]:
        """Forget all queues of a topic, whose files were moved away. Return how many had entries, and how many entries ever."""
        queue_count = entry_count = 0
        for key in [key for key in self._queues if key[0] == topic]:
            queue = self._queues.pop(key)
            queue_count, entry_count = queue_count + (queue.max_offset > 0), entry_count + queue.max_offset
            self._forget_late(queue)
            queue.forget()
        for key in [key for key in self._next if key[0] == topic]:
            del self._next[key]
        return queue_count, entry_count

    def remove_all(self) -> None:
        """Delete all queues: the log begins anew. Raise OSError when that fails."""
        for queue in self._queues.values():
            queue.remove()
        for each in (self._queues, self._next, self._late, self.crowded):
            each.clear()
        self.late_bytes = 0

    def expire_deleted(self, positions: Mapping[str, int]) -> list[ExpiredFile]:
        """Drop entries of messages before the positions of their topics, with which they were deleted.

        Remove queues without other entries.
        """
        expired = []
        for key, queue in [(key, queue) for key, queue in self._queues.items() if key[0] in positions]:
            expired += queue.expire(positions[key[0]])
            if queue.min_offset == queue.max_offset:
                self._queues.pop(key).remove()
        return expired

    def _make(self, key: tuple[str, int]) -> ConsumeQueue:
        directory = f"{self._directory}/{key[0]}/{key[1]}"
        queue = ConsumeQueue(self._files, self._opened, directory, self._entries_per_file, self._reads)
        self._queues[key] = queue
        return queue


def is_directory_name(key: tuple[str, int]) -> bool:
    """Whether topic and queue id can be directory names. The broker checks its topics; this also covers names read from a log."""
    topic, queue_id = key
    is_name = topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic
    return is_name and len(topic.encode(errors="replace")) <= _NAME_BYTES_MAX and queue_id >= 0

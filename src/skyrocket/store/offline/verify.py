"""Verify a store directory: the log in itself, queues and index against the log, and the checkpoint.

Each finding names a file and a position in it. A sound store has no findings. For a store that is open, or whose broker was
killed, unfinished work is no finding: a record that is being written, a message that is not in its queue yet. What the checkpoint
says to be on disk is verified in any case.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from skyrocket.protocol.message.properties import TAGS
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.log.damage import explain_damage
from skyrocket.store.log.scan import DamagedRange, FoundRecord, LogEnd
from skyrocket.store.log.segments import segment_name
from skyrocket.store.message import UNQUEUED, delay_level
from skyrocket.store.offline.confirmed_entries import find_confirmed_end
from skyrocket.store.offline.offline_index import IndexSizes
from skyrocket.store.offline.offline_queue import OfflineQueue
from skyrocket.store.offline.offline_store import EVER_MS, OfflineStore, matches_entry, properties_of
from skyrocket.store.offline.verify_index import Finding, verify_index
from skyrocket.store.offline.verify_ledger import verify_ledger
from skyrocket.store.queues.consume_queue import QueueEntry
from skyrocket.store.queues.consume_queues import QueueKey
from skyrocket.store.recovery.checkpoint import Checkpoint

_TOPIC_NAME = re.compile(r'"topicName"\s*:\s*"([^"]*)"')


@dataclass(slots=True)
class VerifyCounts:
    """How much was verified, for a summary."""

    messages: int = 0
    queues: int = 0
    index_entries: int = 0


def verify(
    path: Path | str,
    *,
    commit_log: Path | str | None = None,
    index_sizes: IndexSizes | None = None,
    verified: VerifyCounts | None = None,
) -> Iterator[Finding]:
    """Yield every finding as it is made. Count in `verified` what was verified."""
    with OfflineStore(path, commit_log=commit_log, index_sizes=index_sizes) as store:
        yield from Verification(store, verified or VerifyCounts()).findings()


@dataclass(slots=True)
class QueueCheck:
    """A queue, compared with the log."""

    files: OfflineQueue | None
    fitting: int = 0  # entries that match a message of the log
    first: int = -1  # queue offset of the first message in the log
    last: int = -1  # the highest queue offset in the log
    missing: tuple[int, int, int] | None = None  # (physical offset, first, last queue offset) of messages without entries


class Verification:
    """The checks of one store. `findings` makes all of them, one after another; `verify_parts` divides them among processes.

    Queues, index and ledger are compared with what the log was found to be: `queues`, `damaged` and `end`.
    """

    def __init__(self, store: OfflineStore, verified: VerifyCounts, queued_before: int | None = None) -> None:
        self._store = store
        self._log = store.log
        self._verified = verified
        self.queues: dict[QueueKey, QueueCheck] = {}
        self.damaged: list[DamagedRange] = []
        self.end = 0
        self._queued_before = queued_before_of(store) if queued_before is None else queued_before
        self._topics = _topics(store)

    def findings(self) -> Iterator[Finding]:
        yield from self.check_log_files()
        yield from self.check_log(self._log.start, EVER_MS)
        yield from self.report_missing()
        for key in self._store.queue_keys():
            yield from self.check_queue(key)
        yield from self.check_index()
        yield from self.check_rest()

    def check_log(self, start: int, stop: int) -> Iterator[Finding]:
        """Check everything that begins in the log from `start`, where a record must start, up to before `stop`."""
        for item in self._log.walk(start):
            if isinstance(item, LogEnd):
                self.end = item.offset
            elif item.offset >= stop:
                self.end = stop
                return
            elif isinstance(item, FoundRecord):
                self._verified.messages += 1
                is_queued = item.record.sys_flag & TRANSACTION_MASK not in UNQUEUED
                if is_queued and not self._store.deleted.covers(item.record.topic, item.offset):
                    yield from self._check_queued(item)
            else:
                self.damaged.append(item)
                yield self._at(item.offset, self._explain_damage(item))

    def report_missing(self) -> Iterator[Finding]:
        """Report messages without a queue entry that are not reported yet."""
        for key, queue in sorted(self.queues.items()):
            yield from self._report_missing(key, queue)

    def check_index(self, names: Sequence[str] | None = None) -> Iterator[Finding]:
        """Check these index files, or all."""
        yield from verify_index(self._store, self.end, self._is_damaged, self._count_index_entries, names)

    def check_rest(self) -> Iterator[Finding]:
        """Check the checkpoint, and what only a node of a DLedger group has."""
        yield from self._check_checkpoint()
        yield from verify_ledger(self._store, self.end, self._is_damaged)

    def _count_index_entries(self, count: int) -> None:
        self._verified.index_entries += count

    def _at(self, offset: int, problem: str) -> Finding:
        """Return a finding at an offset of the log."""
        segment_bytes = self._log.segment_bytes
        start = self._log.start_of(offset)
        if start is None:
            start = offset - offset % segment_bytes if segment_bytes else 0
        return Finding(self._segment(start), offset - start, problem)

    def _segment(self, start: int) -> str:
        return self._relative(f"{self._log.directory}/{segment_name(start)}")

    # --- the log

    def check_log_files(self) -> Iterator[Finding]:
        for start in self._log.starts:
            segment = self._log.segment(start)
            is_last = start == self._log.starts[-1]
            if segment is None:
                if not is_last and start in self._refresh_starts():
                    yield Finding(self._segment(start), 0, "The file is empty.")
            elif len(segment) != self._log.segment_bytes:
                yield Finding(
                    self._segment(start),
                    len(segment),
                    f"The file has {len(segment)} bytes; the first one has {self._log.segment_bytes}.",
                )

    def _refresh_starts(self) -> list[int]:
        self._log.refresh()
        return self._log.starts

    def _explain_damage(self, damaged: DamagedRange) -> str:
        """Say what is wrong with bytes of the log that are no message."""
        start = self._log.start_of(damaged.offset)
        segment = None if start is None else self._log.segment(start)
        if start is None or segment is None:
            return f"{damaged.size} bytes of the log at {damaged.offset} cannot be read: the file is missing."
        return explain_damage(segment, damaged.offset - start, damaged, self._log.framing.header_bytes)

    def _is_damaged(self, offset: int) -> bool:
        index = bisect_right(self.damaged, (offset, EVER_MS)) - 1
        return index >= 0 and offset < self.damaged[index].offset + self.damaged[index].size

    # --- messages in their queues

    def _check_queued(self, found: FoundRecord) -> Iterator[Finding]:
        """Compare a message of the log with its queue entry."""
        record = found.record
        key = QueueKey(record.topic, record.queue_id)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = QueueCheck(self._store.queue(*key))
        offset = record.queue_offset
        if offset <= queue.last:
            yield self._at(
                found.offset, f"A message of {_format_key(key)} has queue offset {offset} behind one with {queue.last}."
            )
        queue.first = offset if queue.first < 0 else queue.first
        queue.last = max(offset, queue.last)
        entry = self._entry(key, queue, offset)
        if entry is None:
            if found.offset < self._queued_before and not self._is_deleted(key):
                if queue.missing is None or queue.missing[2] != offset - 1:
                    yield from self._report_missing(key, queue)
                    queue.missing = (found.offset, offset, offset)
                queue.missing = (*queue.missing[:2], offset)
        elif entry[:2] == (found.offset, found.size) and _code_fits(entry, record):
            queue.fitting += 1
        elif entry.physical_offset != found.offset and self._is_confirmed_by_log(key, offset, entry):
            other = entry.physical_offset
            yield self._at(found.offset, f"A message of {_format_key(key)} has queue offset {offset}, as the one at {other}.")

    def _entry(self, key: QueueKey, queue: QueueCheck, offset: int) -> QueueEntry | None:
        entry = None if queue.files is None else queue.files.entry(offset)
        if entry is None and self._store.is_open:  # the broker may have added it in the meantime
            if queue.files is None:
                queue.files = self._store.queue(*key)
            else:
                queue.files.refresh()
            entry = None if queue.files is None else queue.files.entry(offset)
        return entry

    def _report_missing(self, key: QueueKey, queue: QueueCheck) -> Iterator[Finding]:
        if queue.missing is not None:
            physical_offset, first, last = queue.missing
            queue.missing = None
            which = f"queue offset {first} is" if first == last else f"queue offsets {first} to {last} are"
            yield self._at(
                physical_offset, f"The queue {_format_key(key)} has no entry for messages of the log: {which} missing."
            )

    def _is_deleted(self, key: QueueKey) -> bool:
        """Whether the topic was deleted: it has no queues and no configuration.

        Its messages stay in the log until they expire.
        """
        return self._topics is not None and key.topic not in self._topics and self._store.queue(*key) is None

    # --- queues in themselves

    def check_queue(self, key: QueueKey) -> Iterator[Finding]:
        """Compare each entry of a queue with the log, unless all of its entries have matched a message already."""
        files = self._store.queue(*key)
        if files is None:
            return
        self._verified.queues += 1
        yield from self._check_queue_files(key, files)
        log_start = self._log.start
        first = files.min_offset(log_start)
        known = self.queues.get(key)
        if known is not None and known.fitting == files.max_offset - first:
            return
        ahead: list[Finding] = []  # in an open store: new since the log was read, unless an older entry follows
        for offset, entry in files.entries(first):
            if self._is_confirmed_by_log(key, offset, entry) or entry.physical_offset < self._refresh_log_start():
                continue
            path, at = files.path_of(offset)
            finding = Finding(self._relative(path), at, self._entry_problem(key, offset, entry))
            if self._store.is_open and entry.physical_offset >= self.end:
                ahead.append(finding)
            else:
                yield from ahead
                ahead.clear()
                yield finding

    def _refresh_log_start(self) -> int:
        return next(iter(self._refresh_starts()), 0)

    def _check_queue_files(self, key: QueueKey, files: OfflineQueue) -> Iterator[Finding]:
        for before, start in zip(files.starts, files.starts[1:], strict=False):
            if start - before != files.file_bytes:
                path = f"consumequeue/{key.topic}/{key.queue_id}/{segment_name(before)}"
                yield Finding(path, files.file_bytes, f"The next file starts at {start}, not at {before + files.file_bytes}.")

    def _is_confirmed_by_log(self, key: QueueKey, offset: int, entry: QueueEntry) -> bool:
        found = self._log.record_at(entry.physical_offset)
        return found is not None and matches_entry(found, *key, offset, entry.size) and _code_fits(entry, found.record)

    def _entry_problem(self, key: QueueKey, offset: int, entry: QueueEntry) -> str:
        which = f"The entry for queue offset {offset} of {_format_key(key)}"
        found = self._log.record_at(entry.physical_offset)
        if found is None:
            return f"{which} names {entry.size} bytes at {entry.physical_offset} of the log, where no sound message lies."
        record = found.record
        if (record.topic, record.queue_id) != key:
            return f"{which} names a message of {record.topic}/{record.queue_id}, at {found.offset} of the log."
        if record.queue_offset != offset:
            return f"{which} names the message with queue offset {record.queue_offset}, at {found.offset} of the log."
        if found.size != entry.size:
            return f"{which} says {entry.size} bytes; the message at {found.offset} of the log has {found.size}."
        return f"{which} has the tag code {entry.tags_code}, which does not fit the message at {found.offset} of the log."

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self._store.paths.root}/")

    # --- the checkpoint

    def _check_checkpoint(self) -> Iterator[Finding]:
        checkpoint = self._store.checkpoint
        said = {
            32: ("confirmed", checkpoint.confirmed_offset),
            40: ("in the queues", checkpoint.queue_physical_offset),
            76: ("safe on disk", checkpoint.safe_end or 0),
            84: ("dispatched", checkpoint.dispatch_end or 0),
        }
        for at, (what, position) in said.items():
            if position > self.end:
                yield Finding(
                    "checkpoint", at, f"It calls the log {what} up to {position}; the log can be read up to {self.end}."
                )


def queued_before_of(store: OfflineStore) -> int:
    """Return the log offset before which every message is certainly in its queue."""
    return _dispatched_before(store.checkpoint) if store.is_open else find_confirmed_end(store)


def _dispatched_before(checkpoint: Checkpoint) -> int:
    if checkpoint.dispatch_end is not None:
        return checkpoint.dispatch_end
    return checkpoint.queue_physical_offset


def _topics(store: OfflineStore) -> set[str] | None:
    """Return the topics in `config/topics.json`; None when there is no such file."""
    try:
        return set(_TOPIC_NAME.findall(Path(store.paths.config, "topics.json").read_text(errors="replace")))
    except OSError:
        return None


def _code_fits(entry: QueueEntry, record: Record) -> bool:
    properties = properties_of(record)
    if delay_level(record.topic, properties) > 0:
        return (
            entry.tags_code >= record.store_timestamp
        )  # its delivery time; the delay of a level depends on the broker's configuration
    return entry.tags_code == tags_code(properties.get(TAGS))


def _format_key(key: QueueKey) -> str:
    return f"{key.topic}/{key.queue_id}"

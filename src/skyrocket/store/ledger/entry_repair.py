"""Damaged entries of a node's log, and how they are written again as another node of the group has them.

    note_bytes, note_entry     an entry was found damaged: by the scrub, by a reader, by a push
    damaged                    all of them that are not repaired yet
    begin_restore → job        check entries of another node against their neighbours here; any thread runs the job
    finish_restore(job)        the entries are on disk: readers see them, and their queues point at them
    give_up(first, last)       no node has them: readers skip them from now on

An entry is taken only if it lies exactly between its neighbours: their indexes, terms, positions and sizes must fit, the record
must say that it lies there, and its CRC must be right. So a damaged range needs no trust in what is left of its own headers.

    | entry 6 | ← 7 begins where 6 ends … 9 ends where 10 begins → | entry 10 |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyrocket.protocol.message.record import Record
from skyrocket.store.config import delay_levels_ms
from skyrocket.store.errors import StoreError, store_error
from skyrocket.store.files import File, Files
from skyrocket.store.ledger.entry import HEADER_BYTES, PADDING, EntryError, EntryHeader, unpack_header
from skyrocket.store.ledger.entry_dispatch import decode_entry
from skyrocket.store.ledger.entry_index import pack_index_entry
from skyrocket.store.ledger.index_ranges import IndexRanges
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.damage import is_filler
from skyrocket.store.message import dispatch_request_of
from skyrocket.store.queues.consume_queue import ENTRY
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.recovery.repair import QueueRepair

if TYPE_CHECKING:
    from skyrocket.store.ledger.ledger_store import LedgerStore

REPAIRED: Final = "repaired-"  # begins the name of a file in `damaged/` whose entries are whole again


@dataclass(frozen=True, slots=True)
class RestoreJob:
    """Writes entries where they belong, and syncs them. Any thread may call `run`. It raises OSError."""

    entries: list[tuple[EntryHeader, Record, bytes]]
    run: Callable[[], None]

    @property
    def first(self) -> int:
        return self.entries[0][0].index

    @property
    def last(self) -> int:
        return self.entries[-1][0].index

    @property
    def size_bytes(self) -> int:
        return sum(header.size for header, _, _ in self.entries)


class EntryRepair:
    def __init__(
        self, store: LedgerStore, files: Files, checksums: Checksums, deleted: DeletedTopics, queue_repair: QueueRepair
    ) -> None:
        self._store = store
        self._files = files
        self._checksums = checksums
        self._deleted = deleted
        self._queue_repair = queue_repair
        self._delays_ms = delay_levels_ms(store.config.delay_levels)
        self.damaged = IndexRanges()
        self.given_up = IndexRanges()  # of the damaged ones: no node has them
        self.on_damage: Callable[[], None] | None = None  # called when there is more; None: nobody asks other nodes

    # --- what is damaged

    def find_at_start(self) -> None:
        """Look through what recovery has set aside, now or at an earlier start, and through files that were lost."""
        log, paths = self._store.log, self._store.paths
        for start in log.lost_segments:
            self._files.replace(f"{paths.damaged}/{start:020d}-{log.segments.segment_bytes}", b"")
        for name in self._files.names(paths.damaged):
            offset, _, size = name.partition("-")
            if offset.isdigit() and size.isdigit():
                self.note_bytes(int(offset), int(size), look=True)
        if not self.damaged:
            self._mark_repaired()

    def note_bytes(self, offset: int, size: int, *, look: bool = False) -> None:
        """Note the entries of a damaged range of the log. Where it is only padding, write that again.

        With `look`, entries are noted only if they are damaged still.
        """
        store, log = self._store, self._store.log
        if log.last is None or offset + size <= log.start or offset >= log.end:
            return
        first = log.entries.find_at(max(offset, log.start), log.begin_index, log.end_index)
        before = log.entries.get(first - 1)
        if first > log.begin_index and (before is None or before.end > offset):
            first -= 1  # the range begins in the middle of it
        last = log.entries.find_at(offset + size, first, log.end_index) - 1
        count = len(self.damaged)
        if look:
            for index in range(first, last + 1):
                if not store.is_intact(index):
                    self.damaged.add(index, index)
        elif last >= first:
            self.damaged.add(first, last)
        self._restore_padding(offset, size)
        if len(self.damaged) > count:
            self._report_damage()

    def note_entry(self, index: int) -> None:
        """Note an entry that a reader has found damaged."""
        if self._store.log.has_index(index) and index not in self.damaged:
            self.damaged.add(index, index)
            self._report_damage()

    def _report_damage(self) -> None:
        if self.on_damage is not None:
            self.on_damage()

    def awaits(self, record_offset: int, start: int, stop: int) -> bool:
        """Whether a message between two positions of the log is damaged, and another node may have it.

        A reader must not skip it then. If its queue entry says where it lies, that entry of the log is looked at, and noted.
        """
        log = self._store.log
        if self.on_damage is None or log.last is None or start >= log.end:
            return False
        first = log.entries.find_at(max(start, log.start), log.begin_index, log.end_index)
        last = max(first, log.entries.find_at(stop, first, log.end_index) - 1)
        said = log.entries.find_at(record_offset - HEADER_BYTES, first, last)
        if first <= said <= min(last, self._store.committed_index) and not self._store.is_intact(said):
            self.note_entry(said)
        return any(
            not self.given_up.covers(max(first, each.first), min(last, each.last))
            for each in self.damaged.ranges
            if each.first <= last and first <= each.last
        )

    def give_up(self, first: int, last: int) -> None:
        self.given_up.add(first, last)

    def forget_before(self, begin_index: int) -> None:
        """Retention has deleted the entries before an index."""
        if begin_index > 0:
            for each in (self.damaged, self.given_up):
                each.discard(0, begin_index - 1)

    def clear(self) -> None:
        """The log begins anew."""
        self.damaged.clear()
        self.given_up.clear()

    def fits_checksum(self, entry: bytes) -> bool | None:
        """Whether an entry is what was written here, by the checksum that this node kept; None when it has none."""
        header = unpack_header(entry)
        return None if header is None else self._checksums.matches(header.record_offset, memoryview(entry)[HEADER_BYTES:])

    # --- writing them again

    def begin_restore(self, entries: Sequence[bytes | memoryview]) -> RestoreJob:
        """Return a job that writes consecutive entries of other nodes. Raise EntryError when they do not belong here."""
        log = self._store.log
        found = [(*decode_entry(entry), bytes(entry)) for entry in entries]
        self._check_place([header for header, _, _ in found])
        for header, record, _ in found:
            if record.physical_offset != header.record_offset or is_filler(record):
                raise EntryError(
                    f"Entry {header.index} of another node is not the one that is damaged here: it holds no message."
                )
        following = self._known(found[-1][0].index + 1)
        starts = [*(header.pos for header, _, _ in found[1:]), None if following is None else following.pos]
        writes: dict[str, list[tuple[int, bytes]]] = {}
        for (header, _, entry), next_pos in zip(found, starts, strict=True):
            start = log.segments.start_of(header.pos)
            assert start is not None
            pieces = writes.setdefault(log.segments.path(start), [])
            pieces.append((header.pos - start, entry))
            if next_pos is not None and next_pos > header.end:  # it begins the next segment
                pieces.append((header.end - start, log.framing.pack_blank(next_pos - header.end)))
            path, at = log.entries.place_of(header.index)
            writes.setdefault(path, []).append((at, pack_index_entry(header)))
        try:
            opened = [(self._files.open(path, writable=True), pieces) for path, pieces in writes.items()]
        except OSError as error:
            raise store_error(f"restoring entry {found[0][0].index}", error) from error
        return RestoreJob(found, lambda: _write(opened))

    def _known(self, index: int) -> EntryHeader | None:
        """Return what index or log has of an entry, which may itself be damaged."""
        log = self._store.log
        return log.header_of(index) or log.entries.get(index) if log.has_index(index) else None

    def _check_place(self, headers: list[EntryHeader]) -> None:
        log, segment_bytes = self._store.log, self._store.log.segments.segment_bytes
        first, last = headers[0], headers[-1]
        wrong = EntryError(f"Entry {first.index} of another node is not the one that is damaged here.")
        if not self.damaged.covers(first.index, last.index) or last.index > self._store.committed_index:
            raise wrong
        before = self._known(first.index - 1)
        at = log.start if before is None else before.end
        index, term = first.index, 0 if before is None else before.term
        for header in headers:
            border = at - at % segment_bytes + segment_bytes
            begins_next = header.pos == border and border - at >= PADDING.size
            if header.index != index or header.term < term or not (header.pos == at or begins_next):
                raise wrong
            if header.pos % segment_bytes + header.size > segment_bytes:
                raise wrong
            at, index, term = header.end, index + 1, header.term
        following = self._known(last.index + 1)
        if following is None:
            fits = log.last is not None and last.end == log.last.end
        else:
            border = last.end - last.end % segment_bytes + segment_bytes
            fits = following.pos in (last.end, border) and term <= following.term
        if not fits:
            raise wrong

    def finish_restore(self, job: RestoreJob) -> None:
        """Report that the job has run: readers see the entries."""
        store, log = self._store, self._store.log
        log.forget_windows()
        self._queue_repair.forget()
        for header, record, entry in job.entries:
            if not log.has_index(header.index):
                continue  # it has expired meanwhile
            self._checksums.renew(header.record_offset, memoryview(entry)[HEADER_BYTES:])
            store.reading.unreadable.pop(header.record_offset, None)
            self._restore_queue_entry(header, record)
        self.damaged.discard(job.first, job.last)
        self.given_up.discard(job.first, job.last)
        if not self.damaged:
            self._mark_repaired()

    def _restore_queue_entry(self, header: EntryHeader, record: Record) -> None:
        store = self._store
        dispatch = dispatch_request_of(record, header.size - HEADER_BYTES, self._delays_ms)
        if (
            not dispatch.is_queued
            or self._deleted.covers(record.topic, header.record_offset)
            or header.end > store.dispatched_end
        ):
            return
        queue = store.queues.get(record.topic, record.queue_id)
        if queue is None or record.queue_offset >= queue.max_offset:
            store.queues.put([dispatch])
        else:
            packed = ENTRY.pack(dispatch.physical_offset, dispatch.size, dispatch.tags_code)
            queue.restore(record.queue_offset, packed)

    def _restore_padding(self, offset: int, size: int) -> None:
        """Write the padding of a segment again, which nobody needs to ask for."""
        log = self._store.log
        border = offset + size
        following = log.header_at(border) if border % log.segments.segment_bytes == 0 else None
        before = None if following is None else log.entries.get(following.index - 1)
        start = log.segments.start_of(offset)
        if before is None or start is None or not start <= before.pos or border - before.end < PADDING.size:
            return
        if self._store.is_intact(before.index) and log.header_at(before.end) is None:
            with suppress(OSError, StoreError):
                log.overwrite(before.end, log.framing.pack_blank(border - before.end))

    def _mark_repaired(self) -> None:
        """Rename what was set aside: its entries are whole again. The copies stay, for whoever looks for the reason."""
        directory = self._store.paths.damaged
        for name in self._files.names(directory):
            if name[:1].isdigit():
                with suppress(OSError):  # the next start looks again
                    self._files.move(f"{directory}/{name}", f"{directory}/{REPAIRED}{name}")


def _write(opened: list[tuple[File, list[tuple[int, bytes]]]]) -> None:
    for file, pieces in opened:
        for at, data in pieces:
            file.write(at, data)
        file.sync()
        file.close()

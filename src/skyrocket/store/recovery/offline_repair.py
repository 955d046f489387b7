"""Repair of a store directory that no broker has open: the whole log is read again, and queues and index are made from it.

    a torn tail of the log          copied to repaired-<time>/, then cut off
    damage in the middle of it      copied to damaged/, and a filler takes its place, as after a crash
    queues, index and checkpoint    moved to repaired-<time>/, and written again from the log

Recovery does the work, as when a broker starts after a crash; here it begins at the start of the log, whatever the checkpoint
says. Nothing is deleted: what repair moves or cuts lies in a directory that an operator removes when all is well.

Of a node of a DLedger group also

    headers and index of entries    each is written again with the other; the files of before are copied to repaired-<time>/
    damaged entries, confirmed      keep index, term and size, and hold a filler: the node gets them from its group
    damage behind the confirmed     the log ends there, as after a torn write: no client was told that it is stored
    confirmed entries that are lost the node votes as one that lost its disk, until it has them again (`learner` in currterm)

Nothing is called confirmed that was not: messages behind the last confirmed entry are in no queue until the group confirms them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreFormatError, StoreLockedError, store_error
from skyrocket.store.files import Disk
from skyrocket.store.ledger.entry_index import find_index_bytes
from skyrocket.store.ledger.layout import find_paths
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import LedgerCheckpoint, LedgerCheckpointFile, TermFile
from skyrocket.store.log.readable import read_readable, readable_view
from skyrocket.store.log.scan import DamagedRange, FoundRecord, last_byte_set
from skyrocket.store.message_store import OUR_ABORT, MessageStore
from skyrocket.store.offline.confirmed_entries import find_confirmed_end, find_confirmed_index
from skyrocket.store.offline.offline_index import IndexSizes, infer_index_sizes
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.queues.consume_queue import ENTRY
from skyrocket.store.recovery.checkpoint import Checkpoint, CheckpointFile
from skyrocket.store.recovery.keeping_disk import KeepingDisk
from skyrocket.store.recovery.recovery_result import RecoveryResult

REPAIRED_PREFIX: Final = "repaired-"  # of the directories for what repairs moved or cut
_FOREIGN_ABORT: Final = b"repair\n"  # another program has written the store: checksums of ours do not count
_INDEX_NAME: Final = re.compile(r"\d{17}")
_COPY_BYTES: Final = 1024 * 1024
_LOOK_MESSAGES: Final = 10_000

OnRead = Callable[[int], None]
"""Called with the number of messages that were read so far."""


@dataclass(frozen=True, slots=True)
class RepairableLog:
    """What a log has, found out without a change."""

    messages: int
    damaged: tuple[DamagedRange, ...]  # with sound messages behind them
    end: int  # behind the last sound message
    tail_bytes: int  # behind the end: a message that was not written wholly
    is_closed: bool  # by its broker; otherwise queues and index may lack messages of the log
    confirmed_index: int | None = None  # the last entry of a DLedger log that is known to be confirmed; -1: none is


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What a repair did."""

    recovery: RecoveryResult
    kept_in: str  # the directory with what was moved or cut
    kept: tuple[str, ...]  # what lies there
    damaged_entries: tuple[int, ...] | None = None  # of a DLedger log: they hold fillers, and come from the group


class OfflineRepair:
    """Repairs one store directory. `look` changes nothing."""

    def __init__(self, root: Path | str, *, commit_log: Path | str | None = None, config: StoreConfig | None = None) -> None:
        """`config` has the sizes of files for a directory that does not show them, because all of a kind are lost."""
        self._commit_log = commit_log
        self._config = config
        self.paths = find_paths(Disk(), root, commit_log)

    def check_unused(self) -> None:
        """Raise StoreLockedError while a broker has the store open."""
        self._take_lock()()

    def _take_lock(self) -> Callable[[], None]:
        release = Disk().lock(self.paths.lock)
        if release is None:
            raise StoreLockedError(f"A broker has the store in {self.paths.root} open. Stop it first.")
        return release

    def look(self, on_read: OnRead = lambda _: None) -> RepairableLog:
        """Read the whole log and say what is in it."""
        damaged: list[DamagedRange] = []
        messages = end = 0
        with OfflineStore(self.paths.root, commit_log=self._commit_log) as store:
            for item in store.items():
                if isinstance(item, FoundRecord):
                    messages += 1
                    if messages % _LOOK_MESSAGES == 0:
                        on_read(messages)
                elif isinstance(item, DamagedRange):
                    damaged.append(item)
                else:
                    end = item.offset
            if damaged:
                cut_from = self._cut_from(store, damaged[-1], end)
                end = min([end, *(each.offset for each in damaged if each.offset >= cut_from)])
            tail_bytes = sum(stop - begin for _, begin, stop in self._tail_ranges(store, end))
            is_closed = not store.is_open
        kept = tuple(each for each in damaged if each.offset < end)
        return RepairableLog(messages, kept, end, tail_bytes, is_closed, self._confirmed_index())

    def _cut_from(self, store: OfflineStore, last: DamagedRange, end: int) -> int:
        """Return the position from which on damage is a tail that is cut: nothing sound, or nothing confirmed, follows it."""
        if self.paths.ledger_id is not None:
            return max(find_confirmed_end(store), store.checkpoint.safe_end or 0)
        return last.offset if last.offset + last.size >= end else end

    def _confirmed_index(self) -> int | None:
        """Return the last entry that is known to be confirmed. Raise StoreFormatError when the node's vote cannot be read."""
        if self.paths.ledger_id is None:
            return None
        TermFile(Disk(), self.paths.term_file).read()  # nothing is changed before that is certain
        with OfflineStore(self.paths.root, commit_log=self._commit_log) as store:
            return find_confirmed_index(store)

    def _tail_ranges(self, store: OfflineStore, end: int) -> list[tuple[int, int, int]]:
        """Return (start of the segment, begin, stop) of the bytes behind `end` that are not zero."""
        found = []
        for start in store.log.starts:
            segment = store.log.segment(start)
            begin = max(0, end - start)
            if segment is not None and begin < len(segment):
                stop = last_byte_set(segment, begin)
                if stop > begin:
                    found.append((start, begin, stop))
        return found

    def run(self, time_text: str) -> RepairResult:
        """Repair. `time_text` names the directory for what is moved or cut."""
        release = self._take_lock()
        aside = f"{self.paths.root}/{REPAIRED_PREFIX}{time_text}"
        try:
            disk = KeepingDisk(self.paths.commit_log, aside)
            config = self.find_config()
            checkpoint = CheckpointFile(disk, self.paths.checkpoint).read()
            has_abort = disk.exists(self.paths.abort)
            is_ours = checkpoint.is_ours and (not has_abort or disk.read(self.paths.abort) == OUR_ABORT)
            disk.replace(self.paths.abort, OUR_ABORT if is_ours else _FOREIGN_ABORT)  # a repair that is killed can be repeated
            kept = self._set_aside(disk, aside)
            done, damaged = self._recover(disk, config)
            if self.paths.ledger_id is not None and done.set_aside:
                self._dispatch_again(disk, config)
        except OSError as error:
            raise store_error(f"repairing the store in {self.paths.root}", error) from error
        finally:
            release()
        return RepairResult(done, aside, (*kept, *disk.kept), damaged)

    def _recover(self, disk: Disk, config: StoreConfig) -> tuple[RecoveryResult, tuple[int, ...] | None]:
        """Let recovery read the whole log. Return also the entries of a DLedger log that are damaged."""
        checkpoints = CheckpointFile(disk, self.paths.checkpoint)
        checkpoints.write(_from_the_start(checkpoints.read()))
        store = self._make_store(disk, config)
        done = store.open()
        damaged = tuple(store.damaged_indexes) if isinstance(store, LedgerStore) else None
        store.close()
        return done, damaged

    def _dispatch_again(self, disk: Disk, config: StoreConfig) -> None:
        """Make queues and index once more: entries whose headers were damaged are whole only now."""
        disk.replace(self.paths.abort, OUR_ABORT)
        for path in (self.paths.consume_queues, self.paths.index):
            disk.remove(path)
        self._recover(disk, config)

    def _make_store(self, disk: Disk, config: StoreConfig) -> MessageStore:
        paths = self.paths
        if paths.ledger_id is None:
            return MessageStore(paths.root, config, files=disk, commit_log=self._commit_log)
        index_bytes = find_index_bytes(disk, paths.ledger_index)
        return LedgerStore(
            paths.root, config, node_id=paths.ledger_id, files=disk, data=self._commit_log, index_file_bytes=index_bytes
        )

    def _set_aside(self, disk: Disk, aside: str) -> list[str]:
        """Move queues and index into the directory, and copy the checkpoint. Another run of the repair may have moved some."""
        kept = []
        Path(aside).mkdir(exist_ok=True)
        has_ledger = self.paths.ledger_id is not None
        ledger = self._set_ledger_aside(disk, f"{aside}/{Path(self.paths.ledger).name}") if has_ledger else []
        for path in (self.paths.consume_queues, self.paths.index):
            if disk.exists(path):
                disk.move(path, f"{aside}/{Path(path).name}")
                kept.append(Path(path).name)
        if disk.exists(self.paths.checkpoint):
            disk.replace(f"{aside}/checkpoint", disk.read(self.paths.checkpoint))
            kept.append("checkpoint")
        for directory in (aside, self.paths.root):
            disk.sync_directory(directory)
        return kept + ledger

    def _set_ledger_aside(self, disk: Disk, to: str) -> list[str]:
        """Copy the node's files, and save what is confirmed as long as the queues tell it."""
        confirmed = self._confirmed_index()
        kept = self._copy_ledger(disk, to)
        checkpoints = LedgerCheckpointFile(disk, self.paths.ledger_checkpoint)
        known = checkpoints.read()
        if confirmed is not None and confirmed > known.committed_index:
            checkpoints.write(LedgerCheckpoint(max(known.end_index, confirmed), confirmed))
        return kept

    def _copy_ledger(self, disk: Disk, to: str) -> list[str]:
        """Copy what a node has beside its log: recovery needs all of it, and may write each file again."""
        paths = self.paths
        small = [path for path in (paths.term_file, paths.ledger_checkpoint) if disk.exists(path)]
        for path in small:
            disk.replace(f"{to}/{Path(path).name}", disk.read(path))
        names = disk.names(paths.ledger_index)
        for name in names:
            file = disk.open(f"{paths.ledger_index}/{name}", writable=False)
            stop = last_byte_set(readable_view(file, 0), 0)
            pieces = (read_readable(file, at, min(_COPY_BYTES, stop - at)) for at in range(0, stop, _COPY_BYTES))
            disk.replace_with_backup(f"{to}/index/{name}", pieces, None)
            file.close()
        return [Path(to).name] if small or names else []

    def find_config(self) -> StoreConfig:
        """Return the sizes that the files have: those that are written again must have them too, or no broker opens the store.

        Raise StoreFormatError when no file of a kind is left, and the caller gave no sizes.
        """
        disk, config = Disk(), self._config or StoreConfig()
        with OfflineStore(self.paths.root, commit_log=self._commit_log) as store:
            segment_bytes, indexed = store.log.segment_bytes, store.checkpoint.index_timestamp > 0
        # A repair that was killed has moved them.
        earlier = [f"{self.paths.root}/{name}" for name in disk.names(self.paths.root) if name.startswith(REPAIRED_PREFIX)]
        folders = [self.paths.root, *reversed(earlier)]
        entries = next(filter(None, (_find_queue_entries(disk, f"{folder}/consumequeue") for folder in folders)), None)
        sizes = next(filter(None, (_find_index_sizes(disk, f"{folder}/index") for folder in folders)), None)
        if self._config is None and ((entries is None and segment_bytes) or (sizes is None and indexed)):
            lost = "consume queue" if entries is None else "index"
            raise StoreFormatError(
                f"No {lost} file is left in {self.paths.root} that shows its size. Give the broker's settings with --config "
                f"broker.conf, or --default-sizes if it has the default ones."
            )
        if segment_bytes:
            config = replace(config, segment_bytes=segment_bytes)
        if entries is not None:
            config = replace(config, queue_entries_per_file=entries)
        if sizes is not None:
            return replace(config, index_slots=sizes.slots, index_entries=sizes.entries)
        return config if self._config is not None else replace(config, index_enabled=False)  # it never had one


def _find_queue_entries(disk: Disk, directory: str) -> int | None:
    """Return how many entries a file of a consume queue has; None when there is no file."""
    for topic in disk.names(directory):
        for queue in disk.names(f"{directory}/{topic}"):
            for name in disk.names(f"{directory}/{topic}/{queue}"):
                if (size := disk.size(f"{directory}/{topic}/{queue}/{name}")) >= ENTRY.size:
                    return size // ENTRY.size
    return None


def _find_index_sizes(disk: Disk, directory: str) -> IndexSizes | None:
    """Return the slots and entries of an index file; None when there is no file that tells them."""
    for name in filter(_INDEX_NAME.fullmatch, disk.names(directory)):
        path = f"{directory}/{name}"
        file = disk.open(path, writable=False)
        try:
            return infer_index_sizes(path, file)
        except StoreFormatError:  # a damaged one: the next may tell
            continue
        finally:
            file.close()
    return None


def _from_the_start(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint that makes recovery read the whole log. How far the log was on disk still counts."""
    if not checkpoint.is_ours:
        return Checkpoint()
    return checkpoint._replace(dispatch_end=0, queue_count=0, entry_count=0, queue_physical_offset=0, index_timestamp=0)

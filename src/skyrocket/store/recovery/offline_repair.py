"""Repair of a store directory that no broker has open: the whole log is read again, and queues and index are made from it.

    a torn tail of the log          copied to repaired-<time>/, then cut off
    damage in the middle of it      copied to damaged/, and a filler takes its place, as after a crash
    queues, index and checkpoint    moved to repaired-<time>/, and written again from the log

Recovery does the work, as when a broker starts after a crash; here it begins at the start of the log, whatever the checkpoint
says. Nothing is deleted: what repair moves or cuts lies in a directory that an operator removes when all is well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreFormatError, StoreLockedError, store_error
from skyrocket.store.files import Disk
from skyrocket.store.ledger.layout import find_paths
from skyrocket.store.log.scan import DamagedRange, FoundRecord, last_byte_set
from skyrocket.store.message_store import OUR_ABORT, MessageStore
from skyrocket.store.offline.offline_index import infer_index_sizes
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.queues.consume_queue import ENTRY
from skyrocket.store.recovery.checkpoint import Checkpoint, CheckpointFile
from skyrocket.store.recovery.recovery import RecoveryResult

_FOREIGN_ABORT: Final = b"repair\n"  # another program has written the store: checksums of ours do not count
_INDEX_NAME: Final = re.compile(r"\d{17}")
_COPY_BYTES: Final = 1024 * 1024
_LOOK_MESSAGES: Final = 10_000

OnRead = Callable[[int], None]
"""Called with the number of messages that were read so far."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log has, found out without a change."""

    messages: int
    damaged: tuple[DamagedRange, ...]  # with sound messages behind them
    end: int  # behind the last sound message
    tail_bytes: int  # behind the end: a message that was not written wholly


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What a repair did."""

    recovery: RecoveryResult
    kept_in: str  # the directory with what was moved or cut
    kept: tuple[str, ...]  # what lies there


class _LockedDisk(Disk):
    """The disk, with the lock of the store already taken: nobody gets in between the steps of a repair."""

    def __init__(self, release: Callable[[], None]) -> None:
        super().__init__()
        self._release: Callable[[], None] = release

    def lock(self, path: str) -> Callable[[], None] | None:  # noqa: ARG002 — of the port
        return self._release


class OfflineRepair:
    """Repairs one store directory. `look` changes nothing."""

    def __init__(self, root: Path | str, *, commit_log: Path | str | None = None, config: StoreConfig | None = None) -> None:
        """`config` has the sizes of files that the directory does not show, because all of a kind are lost."""
        self._commit_log = commit_log
        self._config = config or StoreConfig()
        self.paths = find_paths(Disk(), root, commit_log)
        if self.paths.ledger_id is not None:
            raise StoreFormatError(
                f"{self.paths.root} is the store of node {self.paths.ledger_id} of a DLedger group. Start the node: it repairs "
                f"itself, and gets from its group what is damaged."
            )

    def check_unused(self) -> None:
        """Raise StoreLockedError while a broker has the store open."""
        self._take_lock()()

    def _take_lock(self) -> Callable[[], None]:
        release = Disk().lock(self.paths.lock)
        if release is None:
            raise StoreLockedError(f"A broker has the store in {self.paths.root} open. Stop it first.")
        return release

    def look(self, on_read: OnRead = lambda _: None) -> LogState:
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
            trailing = damaged[-1] if damaged and damaged[-1].offset + damaged[-1].size >= end else None
            end = end if trailing is None else trailing.offset
            tail_bytes = sum(stop - begin for _, begin, stop in self._tail_ranges(store, end))
        return LogState(messages, tuple(each for each in damaged if each is not trailing), end, tail_bytes)

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

    def run(self, state: LogState, name: str) -> RepairResult:
        """Repair. `state` is what `look` has found; `name` names the directory for what is moved or cut."""
        release = self._take_lock()
        aside = f"{self.paths.root}/{name}"
        try:
            disk = _LockedDisk(release)
            config = self._find_config(disk)
            kept = self._keep_tail(state.end, aside)
            checkpoint = CheckpointFile(disk, self.paths.checkpoint).read()
            has_abort = disk.exists(self.paths.abort)
            is_ours = checkpoint.is_ours and (not has_abort or disk.read(self.paths.abort) == OUR_ABORT)
            disk.replace(self.paths.abort, OUR_ABORT if is_ours else _FOREIGN_ABORT)  # a repair that is killed can be repeated
            kept += self._set_aside(disk, aside)
            CheckpointFile(disk, self.paths.checkpoint).write(_from_the_start(checkpoint))
            store = MessageStore(self.paths.root, config, files=disk, commit_log=self._commit_log)
        except OSError as error:
            release()
            raise store_error(f"repairing the store in {self.paths.root}", error) from error
        except BaseException:
            release()
            raise
        recovered = store.open()
        store.close()
        return RepairResult(recovered, aside, tuple(kept))

    def _keep_tail(self, end: int, aside: str) -> list[str]:
        """Copy what lies behind the end of the log. Recovery will cut it."""
        kept = []
        with OfflineStore(self.paths.root, commit_log=self._commit_log) as store:
            for start, begin, stop in self._tail_ranges(store, end):
                name = f"log-tail-{start + begin:020d}-{stop - begin}"
                target = Path(aside) / name
                target.parent.mkdir(exist_ok=True)
                segment = store.log.segment(start)
                assert segment is not None
                with target.open("wb") as file:
                    for at in range(begin, stop, _COPY_BYTES):
                        file.write(segment[at : min(at + _COPY_BYTES, stop)])
                kept.append(name)
        return kept

    def _set_aside(self, disk: Disk, aside: str) -> list[str]:
        """Move queues and index into the directory, and copy the checkpoint. Another run of the repair may have moved some."""
        kept = []
        Path(aside).mkdir(exist_ok=True)
        for path in (self.paths.consume_queues, self.paths.index):
            if disk.exists(path):
                disk.move(path, f"{aside}/{Path(path).name}")
                kept.append(Path(path).name)
        if disk.exists(self.paths.checkpoint):
            disk.replace(f"{aside}/checkpoint", disk.read(self.paths.checkpoint))
            kept.append("checkpoint")
        for directory in (aside, self.paths.root):
            disk.sync_directory(directory)
        return kept

    def _find_config(self, disk: Disk) -> StoreConfig:
        """Return the sizes that the files have. Files that are written again must have them too: a broker expects them."""
        config = self._config
        with OfflineStore(self.paths.root, commit_log=self._commit_log) as store:
            if store.log.segment_bytes:
                config = replace(config, segment_bytes=store.log.segment_bytes)
            for key in store.queue_keys():
                directory = f"{self.paths.consume_queues}/{key.topic}/{key.queue_id}"
                sizes = [disk.size(f"{directory}/{name}") for name in disk.names(directory)]
                if sizes and sizes[0] >= ENTRY.size:
                    config = replace(config, queue_entries_per_file=sizes[0] // ENTRY.size)
                    break
        for name in filter(_INDEX_NAME.fullmatch, disk.names(self.paths.index)):
            path = f"{self.paths.index}/{name}"
            with suppress(StoreFormatError):  # a damaged one: the next may tell
                slots, entries = infer_index_sizes(path, disk.open(path, writable=False))
                return replace(config, index_slots=slots, index_entries=entries)
        return config


def _from_the_start(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint that makes recovery read the whole log. How far the log was on disk still counts."""
    if not checkpoint.is_ours:
        return Checkpoint()
    return checkpoint._replace(dispatch_end=0, queue_count=0, entry_count=0, queue_physical_offset=0, index_timestamp=0)

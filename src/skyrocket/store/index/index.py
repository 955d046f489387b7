"""The index: messages by key. Its files are named by the time of their creation; the newest one takes new keys.

A message is indexed under `topic#key` for each of its keys and its unique key. Entries hold hashes only. A query compares the
keys of the records it finds, so a hash collision costs a read and never gives a wrong answer.

New keys are gathered in memory and written late, many at once: `write_late`. Searches find them in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, groupby
from operator import itemgetter

from skyrocket.compiled import twin
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import store_error
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.index.index_file import KEY, NO_MATCH, IndexFile, Visit
from skyrocket.store.index.key_hashes import hash_keys
from skyrocket.store.message import DispatchFields
from skyrocket.store.retention.expired_files import ExpiredFile

_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS
_OPEN_FILES_MAX = 8
WRITTEN_BYTES_MAX = 1024 * 1024  # of keys, written at once


class Index:
    def __init__(self, files: Files, directory: str, slots: int, entries: int, reads: ColdReads | None = None) -> None:
        """`reads` says whether a search waits for the disk."""
        self._files = files
        self._directory = directory
        self._slots = slots
        self._entries = entries
        self._reads = reads or ColdReads()
        self._open: list[IndexFile] = []
        self._opened = OpenFiles(files, _OPEN_FILES_MAX)  # of files at rest: only the newest file is held open
        self.late = bytearray()  # packed keys that are not in a file yet; only the index itself changes them

    @property
    def last_offset(self) -> int:
        """The physical offset of the newest indexed message; -1 when the index is empty."""
        if self.late:
            return int(KEY.unpack_from(self.late, len(self.late) - KEY.size)[1])
        for file in reversed(self._open):
            if not file.is_empty:
                return file.last_offset
        return -1

    @property
    def last_timestamp(self) -> int:
        """The store time of the newest indexed message; 0 when the index is empty."""
        if self.late:
            return int(KEY.unpack_from(self.late, len(self.late) - KEY.size)[2])
        return self.written_timestamp

    @property
    def written_timestamp(self) -> int:
        """The store time of the newest message in the files."""
        return max((file.last_timestamp for file in self._open), default=0)

    def load(self) -> None:
        for name in self._files.names(self._directory):
            if len(name) == _NAME_DIGITS and name.isdigit():
                path = f"{self._directory}/{name}"
                if not self._files.size(path):  # a crash interrupted its creation
                    self._files.remove(path)
                    continue
                reopen = partial(self._opened.get, path)
                made = IndexFile(path, reopen(), self._slots, self._entries, reopen=reopen, reads=self._reads)
                made.rest()
                self._open.append(made)

    # --- writing

    def put(self, dispatches: Sequence[DispatchFields]) -> None:
        """Add messages to the index, in memory. Messages that it already has are skipped."""
        late = self.late
        late += pack_keys(dispatches, KEY.unpack_from(late, len(late) - KEY.size)[1] if late else self.last_offset)

    def write_late(self) -> None:
        """Write the keys that are only in memory. After an error, those that are left stay there for the next call."""
        late = self.late
        try:
            while late:
                file = self._file_for(KEY.unpack_from(late)[2])
                size_bytes = min(file.room * KEY.size, WRITTEN_BYTES_MAX)
                file.put(bytes(late[:size_bytes]))
                del late[:size_bytes]
        except OSError as error:
            raise store_error("writing the index", error) from error

    def _file_for(self, now_ms: int) -> IndexFile:
        if not self._open or not self._open[-1].room:
            path = f"{self._directory}/{self._new_name(now_ms)}"
            reopen = partial(self._opened.get, path)
            self._open.append(IndexFile.create(self._files, path, self._slots, self._entries, reopen=reopen, reads=self._reads))
        return self._open[-1]

    def _new_name(self, now_ms: int) -> str:
        """Return the local time as a name, as Apache does.

        If the newest name is not earlier, add one to it: names sort by age.
        """
        moment = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
        name = f"{moment:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        newest = self._open[-1].name if self._open else ""
        return name if name > newest else f"{int(newest) + 1:0{_NAME_DIGITS}d}"

    def begin_sync(self) -> list[Callable[[], None]]:
        """Return the sync jobs, oldest file first. So when a file's keys are on disk, those of all older files are too."""
        jobs = [file.begin_sync() for file in self._open if file.is_dirty]
        for full in self._open[:-1]:
            full.rest()
        return jobs

    def rebuild(self, stop_offset: int) -> None:
        """After a crash, delete entries of messages at or behind `stop_offset`, and rebuild the slots of the newest file."""
        while self._open:
            file = self._open[-1]
            file.rebuild(stop_offset)
            if not file.is_empty:
                break
            self._drop(self._open.pop())

    def expire(self, log_start: int) -> list[ExpiredFile]:
        """Give up the files whose messages all lie before `log_start`. The newest file stays. The caller deletes them."""
        expired = []
        while len(self._open) > 1 and self._open[0].last_offset < log_start and self._open[0].is_in_sync:
            file = self._open.pop(0)
            at_rest = self._opened.take(file.path)
            expired.append(ExpiredFile(file.path, file.give_up() or at_rest))
        return expired

    def _drop(self, file: IndexFile) -> None:
        file.close()
        self._opened.forget(file.path)
        self._files.remove(file.path)

    # --- reading

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield physical offsets of messages that may have the key and may be from this time range, newest first."""
        return (visit for visit in self.visit(topic, key, begin_ms, end_ms) if isinstance(visit, int) and visit != NO_MATCH)

    def visit(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[Visit]:
        """Like `find`, but yield NO_MATCH for each entry that does not match, so that the caller can bound and pause the walk.

        While reads must not wait for the disk, it also yields what is not in memory, and goes on there when that was read.
        Files may be added and expire meanwhile, and keys in memory may be written.
        """
        hashed = hash_key(topic, key)
        late, files = bytes(self.late), self._open.copy()
        for key_hash, physical_offset, timestamp in reversed(list(KEY.iter_unpack(late))):
            yield physical_offset if key_hash == hashed and begin_ms <= timestamp <= end_ms else NO_MATCH
        for file in reversed(files):
            if not file.is_closed and file.overlaps(begin_ms, end_ms):
                yield from file.visit(hashed, begin_ms, end_ms)

    def close(self) -> None:
        while self._open:
            self._open.pop().close()
        self._opened.close()


def _pack_keys(dispatches: Sequence[DispatchFields], last: int) -> bytes:
    """Pack the hashed keys of messages behind physical offset `last`, as index files take them.

    Neighbouring messages often share topic and tags, so equal keys of one topic are hashed once.
    """
    packed: list[bytes] = []
    if dispatches[0][3] <= last or any(map(itemgetter(8), dispatches)):
        dispatches = [one for one in dispatches if one[3] > last and one[8] & TRANSACTION_MASK != TRANSACTION_ROLLBACK]
    for topic, neighbours in groupby(dispatches, key=itemgetter(0)):
        run = list(neighbours)
        keys = list(dict.fromkeys(chain.from_iterable([one[7] for one in run])))
        hashes = dict(zip(keys, hash_keys(topic, keys), strict=True))
        packed += [
            KEY.pack(hashes[key], physical_offset, timestamp)
            for _, _, _, physical_offset, _, _, timestamp, its_keys, _ in run
            for key in its_keys
        ]
    return b"".join(packed)


pack_keys = twin("dispatch_entries", _pack_keys)


def hash_key(topic: str, key: str) -> int:
    """Return the hash of `topic#key` that the index stores."""
    return hash_keys(topic, (key,))[0]

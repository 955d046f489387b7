"""The index: messages by key. Files named by the time they were made, oldest first; the newest takes new keys.

A message is found by each of its keys and by its unique key, under `topic#key`. Entries hold only hashes: whoever asks compares
the record's real keys, so a collision costs a look and never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import itemgetter

from skyrocket.compiled import twin
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from skyrocket.store.errors import store_error
from skyrocket.store.files import Files
from skyrocket.store.index.index_file import KEY, IndexFile
from skyrocket.store.index.key_hashes import hash_keys
from skyrocket.store.message import DispatchFields

_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS


class Index:
    def __init__(self, files: Files, directory: str, slots: int, entries: int) -> None:
        self._files = files
        self._directory = directory
        self._slots = slots
        self._entries = entries
        self._open: list[IndexFile] = []
        self._left = b""  # keys that a full disk kept from being written; they go first

    @property
    def last_offset(self) -> int:
        """The physical offset of the newest indexed message; -1 when there is none."""
        for file in reversed(self._open):
            if not file.is_empty:
                return file.last_offset
        return -1

    @property
    def last_timestamp(self) -> int:
        return max((file.last_timestamp for file in self._open), default=0)

    def load(self) -> None:
        for name in self._files.names(self._directory):
            if len(name) == _NAME_DIGITS and name.isdigit():
                path = f"{self._directory}/{name}"
                if not self._files.size(path):  # a crash came while it was made
                    self._files.remove(path)
                    continue
                self._open.append(IndexFile(path, self._files.open(path, writable=True), self._slots, self._entries))

    # --- writing

    def put(self, dispatches: Sequence[DispatchFields]) -> None:
        """Index these messages; those that are indexed already are passed over."""
        last = KEY.unpack_from(self._left, len(self._left) - KEY.size)[1] if self._left else self.last_offset
        self._left += pack_keys(dispatches, last)
        try:
            while self._left:
                file = self._file_for(KEY.unpack_from(self._left)[2])
                room_bytes = file.room * KEY.size
                file.put(self._left[:room_bytes])
                self._left = self._left[room_bytes:]
        except OSError as error:
            raise store_error("writing the index", error) from error

    def _file_for(self, now_ms: int) -> IndexFile:
        if not self._open or not self._open[-1].room:
            path = f"{self._directory}/{self._new_name(now_ms)}"
            self._open.append(IndexFile.create(self._files, path, self._slots, self._entries))
        return self._open[-1]

    def _new_name(self, now_ms: int) -> str:
        """The local time, as Apache names them; one more than the newest name where that is later: names sort by age."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
        name = f"{moment:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        newest = self._open[-1].name if self._open else ""
        return name if name > newest else f"{int(newest) + 1:0{_NAME_DIGITS}d}"

    def begin_sync(self) -> list[Callable[[], None]]:
        """Oldest first: where a file has keys on disk, the files before it have all of theirs."""
        return [file.begin_sync() for file in self._open if file.is_dirty]

    def rebuild(self, stop_offset: int) -> None:
        """After a crash: forget what lies at or behind `stop_offset`, and make the newest file's slots again."""
        while self._open:
            file = self._open[-1]
            file.rebuild(stop_offset)
            if not file.is_empty:
                break
            self._drop(self._open.pop())

    def expire(self, log_start: int) -> None:
        """Files that only know messages before `log_start` go; the newest stays."""
        while len(self._open) > 1 and self._open[0].last_offset < log_start:
            self._drop(self._open.pop(0))

    def _drop(self, file: IndexFile) -> None:
        file.close()
        self._files.remove(file.path)

    # --- reading

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Physical offsets of messages that may carry the key and may be of this time, newest first."""
        hashed = hash_key(topic, key)
        for file in reversed(self._open):
            if file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms)

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


def _pack_keys(dispatches: Sequence[DispatchFields], last: int) -> bytes:
    """The keys of the messages behind `last`, packed as the files take them. Neighbours share tags, and mostly their topic: what
    they are hashed by together is hashed once."""
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
    """The index's hash of `topic#key`."""
    return hash_keys(topic, (key,))[0]

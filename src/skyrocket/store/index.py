"""The index: messages by key. Files named by the time they were made, oldest first; the newest takes new keys.

A message is found by each of its keys and by its unique key, under `topic#key`. Entries hold only hashes: whoever asks compares
the record's real keys, so a collision costs a look and never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import mul

from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from skyrocket.protocol.tags import java_hash
from skyrocket.store.errors import store_error
from skyrocket.store.files import Files
from skyrocket.store.index_file import IndexFile, key_hash
from skyrocket.store.message import TAG_MARK, Dispatch

_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS
_START_LENGTH = 24  # of a long key: what the unique keys that one producer makes in a minute share
_LONG_KEY = 28
_ALL_POWERS = tuple(pow(31, n, 2**32) for n in reversed(range(256)))
_REST_MAX = 255
_UNIQUE_KEY = 32  # the length of the unique keys that clients on IPv4 make
_UNIQUE_REST = _UNIQUE_KEY - _START_LENGTH
_POWERS = [_ALL_POWERS[256 - length :] for length in range(257)]  # by length, the highest first
_UNIQUE_POWERS = _POWERS[_UNIQUE_REST]
_UNIQUE_SHIFT = _POWERS[_UNIQUE_REST + 1][0]


class Index:
    def __init__(self, files: Files, directory: str, slots: int, entries: int) -> None:
        self._files = files
        self._directory = directory
        self._slots = slots
        self._entries = entries
        self._open: list[IndexFile] = []
        self._left: list[tuple[int, int, int]] = []  # keys that a full disk kept from being written; they go first

    @property
    def last_offset(self) -> int:
        """The physical offset of the newest indexed message; -1 when there is none."""
        return next((file.last_offset for file in reversed(self._open) if not file.is_empty), -1)

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

    def put(self, dispatches: Sequence[Dispatch]) -> None:
        """Index these messages; those that are indexed already are passed over."""
        last = self._left[-1][1] if self._left else self.last_offset
        keys = self._left + _hashed(dispatches, last)
        self._left = keys
        try:
            while keys:
                file = self._file_for(keys[0][2])
                room = file.room
                file.put(keys[:room])
                del keys[:room]
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
        hashed = hash_of(topic, key)
        for file in reversed(self._open):
            if file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms)

    def files(self) -> Sequence[IndexFile]:
        return self._open

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


def _hashed(dispatches: Sequence[Dispatch], last: int) -> list[tuple[int, int, int]]:
    """(hash, physical offset, store timestamp) of each key of the messages behind `last`.

    Neighbours mostly have the same topic and tag, and unique keys that begin alike: what is known of one serves the next.
    """
    keys: list[tuple[int, int, int]] = []
    topic_before, start, start_hash, tag, tag_hash = "", "?", 0, "", 0
    for topic, _, _, physical_offset, _, _, store_timestamp, its_keys, sys_flag in dispatches:
        if physical_offset <= last or (sys_flag and sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK):
            continue
        if topic != topic_before:
            topic_before, start, tag = topic, "?", ""
        for key in its_keys:
            if key == tag:
                hashed = tag_hash
            elif len(key) == _UNIQUE_KEY and key.startswith(start) and len(rest := key[_START_LENGTH:].encode()) == _UNIQUE_REST:
                value = start_hash * _UNIQUE_SHIFT + sum(map(mul, rest, _UNIQUE_POWERS)) & 0xFFFF_FFFF
                hashed = value if value < 0x8000_0000 else key_hash(value - 0x1_0000_0000)
            else:
                hashed = hash_of(topic, key)
                if key[:2] == TAG_MARK:
                    tag, tag_hash = key, hashed
                elif len(key) == _UNIQUE_KEY:
                    start, start_hash = key[:_START_LENGTH], _start_hash(topic, key[:_START_LENGTH])
            keys.append((hashed, physical_offset, store_timestamp))
    return keys


def hash_of(topic: str, key: str) -> int:
    """The index's hash of `topic#key`.

    Java's hash of a text is that of its start, times 31 to the length of the rest, plus that of the rest. The start is
    remembered: it is the topic, and of long keys the part that a producer's unique keys have in common.
    """
    if key[:2] == TAG_MARK:
        return _tag_hash(topic, key)
    length = len(key)
    if length > _LONG_KEY:
        value, rest, length = _start_hash(topic, key[:_START_LENGTH]), key[_START_LENGTH:], length - _START_LENGTH
    else:
        value, rest = _start_hash(topic, ""), key
    if not rest.isascii() or length > _REST_MAX:
        return key_hash(java_hash(f"{topic}#{key}"))
    hashed: int = value * _POWERS[length + 1][0] + sum(map(mul, rest.encode(), _POWERS[length])) & 0xFFFF_FFFF
    return hashed if hashed < 0x8000_0000 else key_hash(hashed - 0x1_0000_0000)


@lru_cache(maxsize=8192)
def _tag_hash(topic: str, marked_tag: str) -> int:
    return key_hash(java_hash(f"{topic}#{marked_tag}"))


@lru_cache(maxsize=8192)
def _start_hash(topic: str, start: str) -> int:
    return java_hash(f"{topic}#{start}")

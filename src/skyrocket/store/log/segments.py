"""A long file, split into files of equal size. Each is named by the offset at which it starts, in 20 digits, so that names sort.

    00000000000000000000   00000000001073741824   00000000002147483648
    |--- segment_bytes ---|--- segment_bytes ---|--- …

The commit log, the timer log and every consume queue are stored this way. Segments are added at the end and removed at the start.
They are contiguous: a gap between two files means that a file is missing or does not belong here, and loading fails.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise

from skyrocket.store.errors import StoreFormatError, store_error
from skyrocket.store.files import File, Files, OpenFiles
from skyrocket.store.retention.expired_files import ExpiredFile

OFFSET_MAX = 2**63 - 1  # offsets are int64 in every file and frame
_NAME = re.compile(r"[0-9]{20}")


def segment_name(start: int) -> str:
    return f"{start:020d}"


@lru_cache(maxsize=1024)  # each write needs the path of one of the newest segments
def segment_path(directory: str, start: int) -> str:
    return f"{directory}/{segment_name(start)}"


class Segments:
    def __init__(
        self,
        files: Files,
        opened: OpenFiles,
        directory: str,
        segment_bytes: int,
        *,
        allocate: bool,
        durable: bool = True,
    ) -> None:
        """With `allocate` a new file has its space on disk. With `durable` it survives a power failure as soon as it exists."""
        self._files = files
        self._opened = opened
        self._allocate = allocate
        self._durable = durable
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.starts: list[int] = []

    def load(self) -> None:
        """Read the names of the files on disk. Raise StoreFormatError when they do not fit together."""
        self.starts = [int(name) for name in self._files.names(self.directory) if _NAME.fullmatch(name)]
        if self.starts and not self._files.size(self.path(self.starts[-1])):  # a crash interrupted its creation
            unfinished = self.starts.pop()
            if self._opened.writable:
                self._files.remove(self.path(unfinished))
        for start, following in zip(self.starts, self.starts[1:], strict=False):
            if following - start != self.segment_bytes:
                raise StoreFormatError(
                    f"{self.directory}: a file is missing between {start} and {following}; each has {self.segment_bytes} bytes."
                )
        if self.stop > OFFSET_MAX:
            raise StoreFormatError(f"{self.path(self.starts[-1])} lies behind {OFFSET_MAX}, the largest offset.")
        for start in self.starts[-1:]:
            size = self._files.size(self.path(start))
            if size != self.segment_bytes:
                raise StoreFormatError(f"{self.path(start)} has {size} bytes; the configuration says {self.segment_bytes}.")

    def find_gaps(self) -> list[int]:
        """Return the starts of files that are missing between others on disk."""
        starts = [int(name) for name in self._files.names(self.directory) if _NAME.fullmatch(name)]
        return [
            start
            for one, following in pairwise(starts)
            for start in range(one + self.segment_bytes, following, self.segment_bytes)
        ]

    def fill_gap(self, start: int) -> None:
        """Create a missing file, of zeros."""
        self._opened.create(self.path(start), self.segment_bytes, self.segment_bytes if self._allocate else 0)

    @property
    def start(self) -> int:
        return self.starts[0] if self.starts else 0

    @property
    def stop(self) -> int:
        """The end of the last file, whether or not it is filled."""
        return self.starts[-1] + self.segment_bytes if self.starts else 0

    def path(self, start: int) -> str:
        return segment_path(self.directory, start)

    def start_of(self, offset: int) -> int | None:
        """Return the start of the segment that contains `offset`; None when there is none."""
        index = bisect_right(self.starts, offset) - 1
        if index < 0 or offset >= self.starts[index] + self.segment_bytes:
            return None
        return self.starts[index]

    def file(self, start: int) -> File:
        try:
            return self._opened.get(self.path(start))
        except OSError as error:
            raise store_error(f"opening {self.path(start)}", error) from error

    def file_to_write(self, start: int) -> File:
        """Return a segment's file, which the caller is about to write. It stays open until it is synced."""
        try:
            return self._opened.get_to_write(self.path(start))
        except OSError as error:
            raise store_error(f"opening {self.path(start)}", error) from error

    def add(self, start: int, ready: File | None = None) -> File:
        """Add the next segment, and return its file to write. `ready` is the file if it was created ahead of time."""
        assert not self.starts or start == self.stop, f"{start} does not follow {self.stop}"
        if ready is not None:
            self._opened.adopt(self.path(start), ready)
        else:
            allocated = self.segment_bytes if self._allocate else 0
            self._opened.create(self.path(start), self.segment_bytes, allocated, durable=self._durable)
        self.starts.append(start)
        return self._opened.get_to_write(self.path(start))

    def add_anew(self, start: int) -> File:
        """Like `add`, in place of a file of that name: another program that was started on this store may have left one."""
        try:
            return self.add(start)
        except FileExistsError:
            self._files.remove(self.path(start))
            return self.add(start)

    def take_first(self, count: int) -> list[ExpiredFile]:
        """Give up the first segments. The caller deletes their files, oldest first: a gap would keep the store from opening."""
        taken = [ExpiredFile(path, self._opened.take(path)) for path in map(self.path, self.starts[:count])]
        del self.starts[:count]
        return taken

    def drop_last(self) -> None:
        self._drop(self.starts[-1])
        del self.starts[-1]

    def move_last(self, directory: str) -> None:
        """Give up the last segment, and keep its file in another directory."""
        start = self.starts.pop()
        self._opened.forget(self.path(start))
        self._files.move(self.path(start), segment_path(directory, start))
        self._files.sync_directory(directory)
        self._files.sync_directory(self.directory)

    def forget_all(self) -> None:
        """Close all segments, whose files were moved away."""
        for start in self.starts:
            self._opened.forget(self.path(start))
        self.starts.clear()

    def drop_all(self) -> None:
        while self.starts:
            self.drop_last()

    def _drop(self, start: int) -> None:
        self._opened.forget(self.path(start))
        self._files.remove(self.path(start))

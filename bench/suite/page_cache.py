"""Fill the page cache before a load, as it is on a machine that has run a broker for an hour.

A virtual machine may return free memory to its host, and gets it back page by page when it is written again. On the machine of
docs/benchmarks.md that costs 8 µs of CPU for each fresh page, 1.9 µs for each KiB of a message: as much as our broker needs for
the message. With a full cache, new pages are old ones that nobody needs, and the cost is that of a machine of one's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FREE_BYTES: Final = 512 << 20  # that the system keeps free in any case
CHUNK: Final = 1 << 20
LOOK_EVERY: Final = 64  # chunks


class PageCache:
    def __init__(self, folder: Path, *, is_used: bool = True) -> None:
        """`folder` gets a file of holes, which takes no room on the disk. A cache that is not used is left as it is."""
        folder.mkdir(parents=True, exist_ok=True)
        self._bytes = _meminfo_bytes("MemTotal") if is_used else 0
        self._file = (folder / "page-cache").open("w+b", buffering=0)
        self._file.truncate(self._bytes)

    def close(self) -> None:
        self._file.close()

    def fill(self) -> None:
        """Read on in the file until little memory is free. What is read is needed by nobody, so the cache forgets it first."""
        buffer = bytearray(CHUNK)
        for number in range(self._bytes // CHUNK):
            if number % LOOK_EVERY == 0 and _meminfo_bytes("MemFree") < FREE_BYTES:
                return
            if not self._file.readinto(buffer):
                self._file.seek(0)


def _meminfo_bytes(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise LookupError(f"/proc/meminfo does not tell {name}.")

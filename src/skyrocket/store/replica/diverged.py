"""What a replica had and its leader or master had not, in `diverged/`: kept for a while, within a bound.

Each time a log is cut, what is cut becomes a file (a node of a group) or a directory (a slave) here. Somebody may want to look
at it, so it is not deleted at once. But nobody may look, and a disk must not fill up with it. So before something new is kept,
what was written more than KEPT_MS_MAX ago goes, and then the oldest, until the rest is within KEPT_BYTES_MAX. The log names all
that goes. What is cut now is always kept, however long it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skyrocket.store.files import Files

log = logging.getLogger(__name__)

KEPT_MS_MAX: Final = 30 * 24 * 3_600_000
KEPT_BYTES_MAX: Final = 1024**3


class KeptCut(NamedTuple):
    name: str
    size_bytes: int
    cut_ms: int


def choose_expired(kept: Sequence[KeptCut], new_bytes: int, now_ms: int) -> list[KeptCut]:
    """Return which ones go, oldest first, when `new_bytes` come."""
    expired: list[KeptCut] = []
    size_bytes = sum(each.size_bytes for each in kept) + new_bytes
    for each in sorted(kept, key=lambda one: (one.cut_ms, one.name)):
        if now_ms - each.cut_ms <= KEPT_MS_MAX and size_bytes <= KEPT_BYTES_MAX:
            break
        expired.append(each)
        size_bytes -= each.size_bytes
    return expired


def _wall_ms() -> int:
    return int(time.time() * 1000)


class DivergedFiles:
    def __init__(self, files: Files, directory: str, wall_ms: Callable[[], int] = _wall_ms) -> None:
        self._files = files
        self._directory = directory
        self._wall_ms = wall_ms

    def make_room(self, new_bytes: int) -> None:
        """Delete what is too old or too much. Any thread may call this. Raise OSError when that fails."""
        kept = [self._look_at(name) for name in self._files.names(self._directory)]
        for gone in choose_expired(kept, new_bytes, self._wall_ms()):
            self._files.remove(f"{self._directory}/{gone.name}")
            log.warning(
                "%s/%s is deleted (%d bytes of a log that was cut): such files are kept for %d days, and up to %d MiB.",
                self._directory,
                gone.name,
                gone.size_bytes,
                KEPT_MS_MAX // 86_400_000,
                KEPT_BYTES_MAX // 1024**2,
            )

    def _look_at(self, name: str) -> KeptCut:
        path = f"{self._directory}/{name}"
        try:
            paths = [f"{path}/{each}" for each in self._files.names(path)]
        except NotADirectoryError:
            paths = []
        paths = paths or [path]
        return KeptCut(name, sum(map(self._files.size, paths)), max(map(self._files.modified_ms, paths)))

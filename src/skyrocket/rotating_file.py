"""A file of lines that grows up to a bound: then it becomes FILE.1, the older ones move on, and the oldest is deleted.

    auth_audit.log ──▶ auth_audit.log.1 ──▶ … ──▶ auth_audit.log.5 ──▶ deleted

The file is opened for each write: whoever moves or deletes it finds that a new one begins.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
OLD_FILES: Final = 5
_OWNER_ONLY: Final = 0o600


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, _OWNER_ONLY)


class RotatingFile:
    def __init__(self, path: Path, bytes_max: int = FILE_BYTES_MAX, old_files: int = OLD_FILES) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._old_files = old_files

    def append(self, data: bytes) -> None:
        """Write whole lines. Raise OSError when they cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab", opener=_open_for_owner) as file:
            file.write(data)
            size_bytes = file.tell()
        if size_bytes >= self._bytes_max:
            self._rotate()

    def _rotate(self) -> None:
        for number in range(self._old_files, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)

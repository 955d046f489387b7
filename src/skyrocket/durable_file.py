"""A small file that is replaced as a whole: after a crash at any instant it holds all of the new content or all of the old."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Returns when it is on disk. OSError when it is not; the old content stays then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.tmp")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # the new name
    finally:
        os.close(folder)


def read_file(path: Path, bytes_max: int) -> bytes | None:
    """None when there is none. OSError when it cannot be read; what is too long is cut just behind `bytes_max`."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except FileNotFoundError:
        return None

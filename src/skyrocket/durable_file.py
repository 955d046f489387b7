"""Replace a small file atomically: after a crash at any instant it holds either the old content or the new."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file. The content is on disk on return. After an OSError the old content is still there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.tmp")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # makes the rename durable
    finally:
        os.close(folder)


def read_file(path: Path, bytes_max: int) -> bytes | None:
    """Read the file, at most `bytes_max` + 1 bytes. Return None when it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except FileNotFoundError:
        return None

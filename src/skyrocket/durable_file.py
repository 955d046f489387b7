"""Replace a small file atomically: after a crash at any instant it holds either the old content or the new."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace the file. The content is on disk on return. After an OSError the old content is still there.

    `mode` has the permissions of the new file, less those that the process withholds from every file.
    """
    make_directory(path.parent)
    beside = path.with_name(f"{path.name}.tmp")
    beside.unlink(missing_ok=True)  # one that was left behind may have other permissions
    with open(beside, "wb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)  # makes the rename durable


def make_directory(path: Path) -> None:
    """Create a directory with its parents. Each is durable on return, or a power failure could take it with all that is in it."""
    if not path.exists():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and new files in a directory durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_file(path: Path, bytes_max: int) -> bytes | None:
    """Read the file, at most `bytes_max` + 1 bytes. Return None when it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except FileNotFoundError:
        return None

"""The digest of a compiled twin's sources: built into the module, and compared when it is loaded.

`hatch_build.py` loads this file by its path, before skyrocket is installed, so it imports nothing of ours.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

MACRO = "SKYROCKET_SOURCE_DIGEST"  # source_digest.pxi makes a module's SOURCE_DIGEST of it
_SHARED = ("*.pxi", "*.h")  # any module may include these


@cache
def _read_shared_sources(folder: Path) -> bytes:
    paths = sorted(path for pattern in _SHARED for path in folder.glob(pattern))
    return b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in paths)


def source_digest(source: Path) -> str | None:
    """Return the digest of a `.pyx` file and of every file that it may include. Return None where there is no such file."""
    try:
        text = source.read_bytes()
    except FileNotFoundError:
        return None
    return hashlib.sha256(text + b"\0" + _read_shared_sources(source.parent)).hexdigest()

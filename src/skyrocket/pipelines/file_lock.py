"""Locks on files, with which jobs keep out of each other's way: one job writes to an archive, one task sends a queue.

The system releases a lock when its process ends, also by kill -9. On a network file system it holds between machines if that file
system has locks (NFS since version 4, most others).
"""

from __future__ import annotations

import fcntl
import time
from typing import Final

_POLL_S: Final = 0.1


def take_lock(descriptor: int, wait_s: float = 0.0, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed. Return False if another process holds the lock for all of `wait_s`.

    Any number of processes hold a shared lock, as long as none holds one that is not shared.
    """
    deadline_s = time.monotonic() + wait_s
    while not _try_lock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""What can go wrong in a store. None of these is raised after a message was acknowledged."""

from __future__ import annotations

import errno


class StoreError(Exception):
    """The root of every error that the store raises on purpose."""


class DiskFullError(StoreError):
    """There is no room. Nothing was stored; reads go on; writes go on when there is room again."""


class StoreIOError(StoreError):
    """The file system refused an operation. Nothing was stored."""


class WritesStoppedError(StoreError):
    """A flush failed, so what is on disk is unknown: this store takes no more messages until it is opened again."""


class StoreLockedError(StoreError):
    """Another process, ours or Apache's, has this store open."""


class StoreClosedError(StoreError):
    """The store was closed."""


class TooLargeError(StoreError):
    """A record does not fit in a segment of the commit log."""


class QueueNameError(StoreError):
    """A topic's name or a queue's id cannot name a directory."""


class StoreFormatError(StoreError):
    """The directory is not a store, or its files are not of the sizes that the configuration says."""


class ConfigFileError(StoreError):
    """A file of settings cannot be read, or what should go into it cannot be written."""


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def store_error(doing: str, error: OSError) -> StoreError:
    """The typed error for what the file system said while `doing`."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFullError(f"The disk is full ({reason}) while {doing}.")
    return StoreIOError(f"The file system refused ({reason}) while {doing}.")

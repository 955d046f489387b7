"""Errors of the store. None of them is raised for a message that was already acknowledged."""

from __future__ import annotations

import errno


class StoreError(Exception):
    """Base class of every error that the store raises on purpose."""


class DiskFullError(StoreError):
    """The disk is full. Nothing was stored. Reads go on; writes go on once there is space again."""


class StoreIOError(StoreError):
    """A file operation failed. Nothing was stored."""


class UnreadableError(StoreIOError):
    """The disk does not return a range of the log."""


class WritesStoppedError(StoreError):
    """A flush failed, so it is unknown what is on disk. The store takes no more messages until it is opened again."""


class StoreLockedError(StoreError):
    """Another process has this store open: a skyrocket broker or Apache's."""


class StoreClosedError(StoreError):
    """The store was closed."""


class TooLargeError(StoreError):
    """A record does not fit in a segment of the commit log."""


class QueueNameError(StoreError):
    """A topic name or a queue id cannot be the name of a directory."""


class StoreFormatError(StoreError):
    """The directory is not a store, or its files do not have the sizes that the configuration says."""


class ReplicaDataError(StoreError):
    """A master sent bytes that do not belong into its slave's log. Nothing of them was stored."""


class ReplicaStoreError(StoreError):
    """This store copies the log of a master, and takes no messages from anybody else."""


class ConfigFileError(StoreError):
    """A file in `config/` cannot be read, or its content cannot be encoded."""


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def store_error(doing: str, error: OSError) -> StoreError:
    """Return the typed error for an OSError that was raised while `doing`."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFullError(f"The disk is full ({reason}) while {doing}.")
    return StoreIOError(f"A file operation failed ({reason}) while {doing}.")

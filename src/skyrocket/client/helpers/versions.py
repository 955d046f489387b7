"""Version checks: skip a message that carries an older state of a thing than the last one handled.

    check = VersionCheck()

    async with check.newer(f"account-{number}", message_version) as newer:      # in a plain function: `with`
        if newer:
            write_balance(...)

The version is recorded when the body returns and not when it raises, so a failed message is handled again. A version is any
growing integer: a row's version, a time in milliseconds, a sequence number. The check detects repeated and late messages that are
handled one after another. Two messages with one key that are handled at the same time can both be newer: consume them orderly
(one sharding key, one queue), or let the database compare too (`SqlVersions.advance`, in your own transaction).

A message that was made from a certain state names the version that it expects:

    if await check.swap_async("account-7", version=4, expected=3):      # compare and set, atomic; without await: swap
        ...

Exactly one of several callers with the same expectation gets True. The version is set then, before the work: a process that
dies after it has not done the work. `SqlVersions.swap` sets it in your own transaction, together with the work.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from types import TracebackType
from typing import Protocol

KEYS_MAX = 100_000


class Versions(Protocol):
    """A store of the newest version of each key."""

    blocks: bool  # whether a call waits for a disk, so that an event loop must call it in a thread

    def newest(self, key: str) -> int | None: ...

    def record(self, key: str, version: int) -> None:
        """Store the version if it is newer than the stored one."""
        ...

    def swap(self, key: str, version: int, expected: int | None) -> bool:
        """Store the version if the stored one is `expected`, atomically; None: if there is none. Return whether it was."""
        ...


class MemoryVersions:
    """Versions in memory: for one process, until it ends. A full store drops the least recently used key."""

    blocks = False

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._lock = threading.Lock()
        self._newest: OrderedDict[str, int] = OrderedDict()
        self.forgotten = 0  # keys dropped; a late message about one of them would pass as new

    def newest(self, key: str) -> int | None:
        with self._lock:
            version = self._newest.get(key)
            if version is not None:
                self._newest.move_to_end(key)
            return version

    def record(self, key: str, version: int) -> None:
        with self._lock:
            self._keep(key, max(version, self._newest.get(key, version)))

    def swap(self, key: str, version: int, expected: int | None) -> bool:
        with self._lock:
            if self._newest.get(key) != expected:
                return False
            self._keep(key, version)
            return True

    def _keep(self, key: str, version: int) -> None:
        self._newest[key] = version
        self._newest.move_to_end(key)
        if len(self._newest) > self._keys_max:
            self._newest.popitem(last=False)
            self.forgotten += 1


class VersionCheck:
    """Tells whether a version of a key is newer than the last one handled. `versions` is the store; None: in memory."""

    def __init__(self, versions: Versions | None = None) -> None:
        self._versions: Versions = versions if versions is not None else MemoryVersions()

    def newer(self, key: str, version: int) -> Newer:
        """Return a context for `async with` or `with`, whose value is whether the version is newer."""
        return Newer(self._versions, key, version)

    def swap(self, key: str, *, version: int, expected: int | None) -> bool:
        """Set the version of a key if its present one is `expected`, atomically; None: if it has none. Returns whether it was."""
        return self._versions.swap(key, version, expected)

    async def swap_async(self, key: str, *, version: int, expected: int | None) -> bool:
        """Like `swap`, without blocking the event loop."""
        if self._versions.blocks:
            return await asyncio.to_thread(self._versions.swap, key, version, expected)
        return self._versions.swap(key, version, expected)


class Newer:
    """The check of one version of one key, for a single `async with` or `with`."""

    __slots__ = ("_is_newer", "_key", "_version", "_versions")

    def __init__(self, versions: Versions, key: str, version: int) -> None:
        self._versions = versions
        self._key = key
        self._version = version
        self._is_newer = False

    def __enter__(self) -> bool:
        newest = self._versions.newest(self._key)
        self._is_newer = newest is None or self._version > newest
        return self._is_newer

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_newer and kind is None:
            self._versions.record(self._key, self._version)

    async def __aenter__(self) -> bool:
        return await asyncio.to_thread(self.__enter__) if self._versions.blocks else self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._versions.blocks:
            await asyncio.to_thread(self.__exit__, kind, error, trace)
        else:
            self.__exit__(kind, error, trace)

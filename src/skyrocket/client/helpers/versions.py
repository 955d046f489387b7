"""Only forward: a message that tells a thing's state is worth handling only when it is newer than the last one handled.

    check = VersionCheck()

    async with check.newer(f"account-{number}", message_version) as newer:      # a plain function says `with`
        if newer:
            write_balance(...)

The version is noted when the body ends well, and not when it raises; so a failed one is handled again. Versions are any growing
whole number: a row's version, a time in milliseconds, a sequence number. This answers repeats and late-comers that come one
after another. Two messages about one key handled at the same time both find themselves newer: consume those orderly (one
sharding key, one queue), or let the database decide as well (`UPDATE … WHERE version < ?`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from types import TracebackType
from typing import Protocol

KEYS_MAX = 100_000


class Versions(Protocol):
    blocks: bool  # whether a call may take a disk's time, so that a loop calls it in a thread

    def newest(self, key: str) -> int | None: ...

    def saw(self, key: str, version: int) -> None:
        """Kept if it is newer than what is known."""
        ...


class MemoryVersions:
    """For one process, until it ends. When it is full, the key that was asked about longest ago is forgotten."""

    blocks = False

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._lock = threading.Lock()
        self._newest: OrderedDict[str, int] = OrderedDict()
        self.forgotten = 0  # keys; a late-comer about one of them would be taken for new

    def newest(self, key: str) -> int | None:
        with self._lock:
            version = self._newest.get(key)
            if version is not None:
                self._newest.move_to_end(key)
            return version

    def saw(self, key: str, version: int) -> None:
        with self._lock:
            self._newest[key] = max(version, self._newest.get(key, version))
            self._newest.move_to_end(key)
            if len(self._newest) > self._keys_max:
                self._newest.popitem(last=False)
                self.forgotten += 1


class VersionCheck:
    def __init__(self, versions: Versions | None = None) -> None:
        self._versions: Versions = versions if versions is not None else MemoryVersions()

    def newer(self, key: str, version: int) -> Newer:
        return Newer(self._versions, key, version)


class Newer:
    """One version of one key: `async with` or `with`, and used once."""

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
            self._versions.saw(self._key, self._version)

    async def __aenter__(self) -> bool:
        return await asyncio.to_thread(self.__enter__) if self._versions.blocks else self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._versions.blocks:
            await asyncio.to_thread(self.__exit__, kind, error, trace)
        else:
            self.__exit__(kind, error, trace)

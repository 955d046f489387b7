"""The users and rules of a running broker: the table in memory, and its file.

    config/access.json   the table, with sealed passwords; replaced as a whole, and on disk before a change is answered
    config/access.key    the key that seals them; made with the first user; both files have mode 0600

HMAC needs the password itself, so it cannot be stored as a hash. Sealed, a copy of access.json alone (in a backup, a ticket)
gives nothing away. Whoever reads both files has the passwords.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skyrocket.auth.access_file import FILE_BYTES_MAX, decode_table, encode_table
from skyrocket.auth.access_table import AccessTable, differing_users
from skyrocket.auth.errors import AccessError
from skyrocket.auth.sealing import KEY_BYTES, NONCE_BYTES
from skyrocket.durable_file import read_file, replace_file
from skyrocket.protocol.responses import ResponseCode

TABLE_FILE: Final = "access.json"
KEY_FILE: Final = "access.key"
CHANGED_HERE_MAX: Final = 1_000  # users; a copy tells nothing of older changes
_OWNER_ONLY: Final = 0o600


def new_nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


class AccessStore:
    def __init__(self, directory: Path) -> None:
        self._table_path = directory / TABLE_FILE
        self._key_path = directory / KEY_FILE
        self._key = b""
        self._changing = asyncio.Lock()
        self._changed_here: dict[str, None] = {}  # users that requests have changed since the last copy, the oldest first
        self.table = AccessTable()
        self.on_change: list[Callable[[], None]] = []

    def load(self) -> None:
        """Read the files, if there are any. Raise AccessError when they cannot be used: better no broker than one that forgot
        its rules."""
        content = self._read(self._table_path, FILE_BYTES_MAX)
        key = self._read(self._key_path, KEY_BYTES)
        if key is None:
            if content is not None:
                raise AccessError(f"{self._key_path} is missing; without it the passwords in {self._table_path} cannot be read.")
            return
        if len(key) != KEY_BYTES:
            raise AccessError(f"{self._key_path} does not have {KEY_BYTES} bytes.")
        self._key = key
        if content is not None:
            try:
                self.table = decode_table(content, key)
            except AccessError as error:
                raise AccessError(f"{self._table_path} cannot be used: {error}") from error

    def _read(self, path: Path, bytes_max: int) -> bytes | None:
        try:
            return read_file(path, bytes_max)
        except OSError as error:
            raise AccessError(f"{path} cannot be read: {error.strerror}.") from error

    async def change(self, changed: Callable[[AccessTable], AccessTable]) -> None:
        """Apply a change, one after another. It takes effect when it is on disk. Raise AccessError when nothing changes."""
        async with self._changing:
            before, table = self.table, changed(self.table)
            await self._replace(table)
            for name in differing_users(before, table):
                self._changed_here.pop(name, None)
                self._changed_here[name] = None
            while len(self._changed_here) > CHANGED_HERE_MAX:
                del self._changed_here[next(iter(self._changed_here))]

    async def copy(self, table: AccessTable) -> list[str]:
        """Take a master's table. Return the users whose changes made here it does not have."""
        async with self._changing:
            undone = sorted(differing_users(self.table, table) & self._changed_here.keys())
            await self._replace(table)
            self._changed_here.clear()
            return undone

    async def _replace(self, table: AccessTable) -> None:
        if table == self.table:
            return
        try:
            await asyncio.to_thread(self._save, table)
        except OSError as error:
            sentence = f"The change could not be saved and was not made: {error.strerror}."
            raise AccessError(sentence, ResponseCode.SYSTEM_ERROR) from error
        self._take(table)

    def change_now(self, changed: Callable[[AccessTable], AccessTable]) -> None:
        """Like `change`, before the broker serves anybody."""
        table = changed(self.table)
        if table != self.table:
            self._save(table)
            self._take(table)

    def _take(self, table: AccessTable) -> None:
        self.table = table
        for notify in self.on_change:
            notify()

    def _save(self, table: AccessTable) -> None:
        if not self._key:
            key = os.urandom(KEY_BYTES)
            replace_file(self._key_path, key, _OWNER_ONLY)
            self._key = key
        replace_file(self._table_path, encode_table(table, self._key, new_nonce), _OWNER_ONLY)

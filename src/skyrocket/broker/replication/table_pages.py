"""A table of the master that a slave fetches page by page. Pure.

    request_fields()            the fields of the next request, in the order: first entry, entries at most, version
    add(page, version, total)   a page has arrived; return whether another one is needed
    table                       the whole table; None when the master's version is the one that the slave trusts

A master that changes its table meanwhile answers with its first page again, and a new version. Then the pages begin anew.

Apache's master copies its table first and reads the version a little later. So a change in between gives a table the version of
the next one. `TrustedVersion` therefore trusts a version when a second fetch, later, has brought it again with the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from skyrocket.protocol.bodies import DataVersion
from skyrocket.protocol.fastjson.codec import encode

PAGE: Final = 2_000  # entries, as Apache's slave asks for
PAGES_MAX: Final = 10_000  # of one fetch, pages that came again included

Entry = TypeVar("Entry")


class TrustedVersion:
    """The version of the slave's copy of a table, once two fetches have brought it."""

    def __init__(self) -> None:
        self._version: DataVersion | None = None

    def of(self, own_version: DataVersion) -> DataVersion | None:
        """Return the version of the slave's table if it is trusted. A slave that has changed its table has another one."""
        return own_version if self._version == own_version else None

    def record_fetch(self, own_version: DataVersion, fetched: DataVersion | None) -> None:
        """Take note of a fetch of the whole table, and of the version that the slave had before it."""
        self._version = fetched if fetched == own_version else None


class TablePages(Generic[Entry]):
    def __init__(self, trusted_version: DataVersion | None) -> None:
        """A table with the version `trusted_version` need not be fetched."""
        self._trusted_version = trusted_version
        self._entries: dict[str, Entry] = {}
        self._pages = 0
        self.version: DataVersion | None = None  # of the pages so far
        self.is_complete = False

    @property
    def table(self) -> dict[str, Entry] | None:
        return self._entries if self.is_complete and self.version != self._trusted_version else None

    def request_fields(self) -> tuple[int, int, str]:
        return len(self._entries), PAGE, "" if self.version is None else encode(self.version).decode()

    def add(self, page: Mapping[str, Entry], version: DataVersion, total: int | None) -> bool:
        """Take a page. `total` counts the entries of all pages; None: the master is older and sends everything at once."""
        self._pages += 1
        if version != self.version:
            self._entries = {}
            self.version = version
        before = len(self._entries)
        self._entries.update(page)
        is_last = total is None or len(self._entries) >= total or len(self._entries) == before
        self.is_complete = is_last or version == self._trusted_version
        return not self.is_complete and self._pages < PAGES_MAX

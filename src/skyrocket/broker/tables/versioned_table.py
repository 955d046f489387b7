"""A table of configurations by name, with a version: the base of the topic table and the subscription group table.

Every change gives the table a new version and calls each function of `on_change`. `TableSaver` saves the table there, and for
topics `NameserverRegistration` registers them again. The table remembers which entries changed since they were last taken for a
save, so a save costs what the changes cost, however large the table is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import ClassVar, Generic, TypeVar

from skyrocket.broker.limits import PAGE_MAX
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import DataVersion
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.store.table_text import TableChanges

Config = TypeVar("Config")


class VersionedTable(Generic[Config]):
    table_field: ClassVar[str]  # the attribute of the file's body that holds the table

    def __init__(self, configs: dict[str, Config], settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int]) -> None:
        self._configs = configs
        self._settings = settings
        self._wall_ms = wall_ms
        self.version = DataVersion(timestamp=wall_ms())
        self.on_change: list[Callable[[], None]] = []
        self._unsaved: dict[str, None] = dict.fromkeys(configs)  # entries that changed since they were last taken for a save

    def get(self, name: str) -> Config | None:
        return self._configs.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._configs

    def __len__(self) -> int:
        return len(self._configs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._configs)

    @property
    def configs(self) -> Mapping[str, Config]:
        return MappingProxyType(self._configs)

    def page(self, seen_version: str | None, start: int | None, count: int | None) -> list[str]:
        """Return up to `count` names in alphabetical order, from number `start` on.

        `seen_version` is the table's version on the page before, as JSON. When the table has changed since, the first page is
        returned again.
        """
        is_unchanged = False
        if seen_version and seen_version.strip():
            is_unchanged = decode(seen_version.encode(), DataVersion) == self.version
        first = max(start or 0, 0) if is_unchanged else 0
        most = min(PAGE_MAX, PAGE_MAX if count is None else max(count, 0))
        return sorted(self._configs)[first : first + most]

    def _set_changed(self, *names: str) -> None:
        """Take note that these entries changed."""
        self._unsaved.update(dict.fromkeys(names))
        self.version = self.version.next(0, self._wall_ms())
        self._notify()

    def _follow(self, wanted: dict[str, Config], version: DataVersion) -> list[str]:
        """Replace the whole table by the master's, its version included. Return the names that are gone."""
        gone = [name for name in self._configs if name not in wanted]
        changed = [name for name, config in wanted.items() if self._configs.get(name) != config]
        self._configs = wanted
        self._unsaved.update(dict.fromkeys((*gone, *changed)))
        is_new, self.version = bool(gone or changed) or version != self.version, version
        if is_new:
            self._notify()
        return gone

    def _notify(self) -> None:
        for notify in self.on_change:
            notify()

    # --- saving

    def take_changes(self, most: int) -> TableChanges:
        """Return up to `most` entries that changed since they were last taken; nothing when there are no more."""
        names = list(islice(self._unsaved, most))
        for name in names:
            del self._unsaved[name]
        return {self.table_field: {name: self._configs.get(name) for name in names}} if names else {}

    def put_back(self, changes: TableChanges) -> None:
        """Take note that a save failed: these entries have to be saved again, as they will be then."""
        self._unsaved.update(dict.fromkeys(changes.get(self.table_field, ())))

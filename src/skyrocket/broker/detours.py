"""Messages that do not go straight into the queue that they were sent to: delayed ones, timed ones, halves of transactions,
and those that were sent back too often.

A detour is known by a property that the message carries, or by how its topic begins. It is asked with the request's header, the
record as it would be stored (its properties still apart) and those properties, which it may change. It returns the record that is
stored instead, or None when the message is not its business. The first that returns one decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.record import Record

Detour = Callable[[SendMessageRequestHeaderV2, Record, dict[str, str]], Record | None]


class Detours:
    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()  # properties that lead to one: no other message has to be looked at
        self.prefixes: tuple[str, ...] = ()  # beginnings of topics that do
        self._by_name: list[tuple[frozenset[str], Detour]] = []
        self._by_prefix: list[tuple[str, Detour]] = []

    def add(self, names: Iterable[str], detour: Detour) -> None:
        """For messages with any of these properties. Those added first are asked first."""
        self._by_name.append((frozenset(names), detour))
        self.names = self.names.union(names)

    def add_for_topics(self, prefix: str, detour: Detour) -> None:
        """For messages to topics that begin like this; asked before those that go by properties, and these go on from there."""
        self._by_prefix.append((prefix, detour))
        self.prefixes = (*self.prefixes, prefix)

    def lead(self, header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record:
        """The record to store; `properties` are changed to those that are stored with it."""
        for prefix, detour in self._by_prefix:
            if record.topic.startswith(prefix):
                record = detour(header, record, properties) or record
        for names, detour in self._by_name:
            if not names.isdisjoint(properties):
                elsewhere = detour(header, record, properties)
                if elsewhere is not None:
                    return elsewhere
        return record

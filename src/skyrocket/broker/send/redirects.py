"""Messages that do not go straight into the queue that they were sent to: delayed ones, timed ones, halves of transactions,
and those that were sent back too often.

A detour is known by a property that the message carries, or by how its topic begins. It is asked with the request's header, the
record as it would be stored (its properties still apart) and those properties, which it may change. It returns the record that is
stored instead, or None when the message is not its business. The first that returns one decides.

Most of them do no more than to store the message elsewhere, with more properties behind its own. For those a detour may offer a
short cut, which is made once for many messages with the same properties and used where nothing else is to be decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.message.properties import NAME_END, REAL_QUEUE_ID, REAL_TOPIC, VALUE_END
from skyrocket.protocol.message.record import Record

_WAY_BACK = frozenset({REAL_TOPIC, REAL_QUEUE_ID})

Detour = Callable[[SendMessageRequestHeaderV2, Record, dict[str, str]], Record | None]


class Led(NamedTuple):
    """What a short cut does to messages of a queue, the unique key of each marked."""

    more: bytes  # properties that are stored behind its own, and behind those that the broker adds
    recall_words: bytes | None = None  # of the handle that goes into the answer


class ShortCut(NamedTuple):
    """The way of messages whose properties are the same but for their unique keys."""

    topic: str  # where they are stored
    queue_id: int
    lead: Callable[[str, int], Led | None]
    """For messages to this topic and queue. None: there is something to say about them."""
    delay_ms: int | None = None  # their queue entries say when they are due, instead of what tag they have
    kept_flags: int = -1  # of the sys flag


ShortCutOf = Callable[[Mapping[str, str]], ShortCut | None]


@lru_cache(maxsize=1024)  # producers send to few queues, over and over
def way_back(topic: str, queue_id: int) -> bytes:
    """The properties that say where a message goes in the end."""
    return f"{REAL_TOPIC}{NAME_END}{topic}{VALUE_END}{REAL_QUEUE_ID}{NAME_END}{queue_id}{VALUE_END}".encode()


class Detours:
    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()  # properties that lead to one: no other message has to be looked at
        self.prefixes: tuple[str, ...] = ()  # beginnings of topics that do
        self._by_name: list[tuple[frozenset[str], Detour]] = []
        self._short_cuts: dict[str, ShortCutOf] = {}
        self._by_prefix: list[tuple[str, Detour]] = []

    def add(self, names: Iterable[str], detour: Detour, short_cut: ShortCutOf | None = None) -> None:
        """For messages with any of these properties. Those added first are asked first."""
        self._by_name.append((frozenset(names), detour))
        self.names = self.names.union(names)
        if short_cut is not None:
            self._short_cuts |= dict.fromkeys(names, short_cut)

    def add_for_topics(self, prefix: str, detour: Detour) -> None:
        """For messages to topics that begin like this; asked before those that go by properties, and these go on from there."""
        self._by_prefix.append((prefix, detour))
        self.prefixes = (*self.prefixes, prefix)

    def short_cut(self, name: str, properties: Mapping[str, str]) -> ShortCut | None:
        """For messages that have these properties, and of all names only this one."""
        short_cut = self._short_cuts.get(name)
        return None if short_cut is None or _WAY_BACK & properties.keys() else short_cut(properties)

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

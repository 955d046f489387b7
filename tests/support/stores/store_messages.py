"""Messages for tests of the store, and a ledger of what was appended, to check what the store returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import KEYS, TAGS, UNIQUE_KEY, decode_properties, encode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.message.tags import java_hash
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from skyrocket.store.config import StoreConfig
from skyrocket.store.files import Files
from skyrocket.store.message import AppendRequest, AppendResult, append_request_of, index_keys
from skyrocket.store.message_store import MessageStore
from skyrocket.store.read.queue_run import RunSources

ROOT = "store"
TOPICS = ("orders", "%RETRY%billing", "t")
FOREVER_MS = 2**62
START_MS = 1_700_000_000_000
_LONG_AFTER_MS = START_MS + 100 * 365 * 24 * 3_600_000  # when everything has expired

SMALL = StoreConfig(segment_bytes=8192, queue_entries_per_file=10, index_slots=16, index_entries=40)


def a_message(
    topic: str = "orders",
    queue_id: int = 0,
    body: bytes = b"hello",
    *,
    keys: str = "",
    tags: str = "",
    unique: str = "",
    sys_flag: int = 0,
    v6: bool = False,
    **more: str,
) -> AppendRequest:
    named = {KEYS: keys, TAGS: tags, UNIQUE_KEY: unique, **more}
    host = pack_host("fd00::7" if v6 else "10.0.0.7", 40_000)
    return append_request_of(
        Record(
            topic=topic,
            body=body,
            queue_id=queue_id,
            properties=encode_properties({name: value for name, value in named.items() if value}),
            sys_flag=sys_flag,
            born_timestamp=START_MS,
            born_host=host,
            store_host=host,
        )
    )


def random_messages(rng: Random, serial: Iterator[int], count: int) -> list[AppendRequest]:
    """Make messages of several topics and queues, or a batch for one queue. Most are small, some larger than a sector."""
    batch = (rng.choice(TOPICS), rng.randrange(2)) if rng.random() < 0.3 else None
    return [_random_message(rng, next(serial), *(batch or (rng.choice(TOPICS), rng.randrange(2)))) for _ in range(count)]


def _random_message(rng: Random, number: int, topic: str, queue_id: int) -> AppendRequest:
    return a_message(
        topic,
        queue_id,
        rng.choice((b"", bytes(40), rng.randbytes(rng.randrange(1, 80)), rng.randbytes(rng.choice((200, 700, 1500))))),
        keys=rng.choice(("", f"k{number % 7}", f"k{number % 5} k{number % 7}")),
        tags=rng.choice(("", "red", "blue")),
        unique=f"U{number:08d}",
        sys_flag=TRANSACTION_PREPARED if rng.random() < 0.03 else 0,
        v6=rng.random() < 0.2,
        note="x" * rng.choice((0, 1, 100, 600)),
    )


def index_hash(topic: str, key: str) -> int:
    """The hash that the index keeps of `topic#key`, computed in the plain way: the absolute value of Java's String.hashCode, or 0
    for the one int that has no absolute value."""
    hashed = java_hash(f"{topic}#{key}")
    return 0 if hashed == -(2**31) else abs(hashed)


def an_open_store(files: Files, config: StoreConfig = SMALL) -> MessageStore:
    store = MessageStore(ROOT, config, files=files)
    store.open()
    return store


def bodies(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in read_queue(store, topic, queue_id)]


def read_queue(store: MessageStore, topic: str = "orders", queue_id: int = 0, at_once: int = 7) -> list[Record]:
    return [decode_record(view) for view in queue_views(store, topic, queue_id, at_once)]


def queue_views(store: MessageStore, topic: str, queue_id: int, at_once: int = 7) -> list[memoryview]:
    views: list[memoryview] = []
    offset = 0
    while True:
        found = store.reading.messages(topic, queue_id, offset, at_once)
        views += found.records
        if found.next_offset <= offset or found.next_offset >= found.max_offset:
            return views
        offset = found.next_offset


def expire_oldest(store: MessageStore) -> int:
    """Have retention delete the log's first segment, and what refers to it, as if it had expired. Return the log's new start.

    A segment that is not flushed is flushed first, unless a flush is under way.
    """
    starts = store.log.segments.starts
    if len(starts) > 1 and starts[1] > store.horizon.flushed and not store.is_flushing:
        store.flush()
    job = store.retention.begin(_LONG_AFTER_MS, store.config.delete_at_hour)
    job.starts = job.starts[:2]  # the last one stays
    job.run()
    store.retention.finish(job)
    store.expired_files.remove_all()
    return store.log.start


def run_sources(store: MessageStore) -> RunSources:
    """Return the sources of a single run of the store."""
    reading = store.reading
    return RunSources(reading._log, reading._checksums, reading._hot_from())


def unique_key(record: Record) -> str:
    return decode_properties(record.properties)[UNIQUE_KEY]


class Sent(NamedTuple):
    """A message that was appended, and the result."""

    message: AppendRequest
    placed: AppendResult | None  # None: the append failed
    data: bytes  # as it lay in the log right after; empty when the append failed

    @property
    def record(self) -> Record:
        return decode_record(self.message.record)

    @property
    def unique(self) -> str:
        return self.message.keys[0]

    @property
    def is_queued(self) -> bool:
        return self.message.sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


@dataclass(slots=True)
class Ledger:
    """Everything that was attempted, and how much of it the store has acknowledged."""

    sent: dict[str, Sent] = field(default_factory=dict)  # by unique key, in order
    promised: int = 0  # messages that end before this position are acknowledged
    lost_allowed: set[str] = field(default_factory=set)  # unique keys whose record was damaged on purpose

    def append(self, store: MessageStore, messages: Sequence[AppendRequest], now_ms: int) -> None:
        """Append messages. They count as attempted even if the store raises an error."""
        self.sent.update((message.keys[0], Sent(message, None, b"")) for message in messages)
        placed = store.append(messages, now_ms)
        assert len(placed) == len(messages)
        for message, place in zip(messages, placed, strict=True):
            view = store.log.view(place.physical_offset, place.size)
            assert view is not None
            self.sent[message.keys[0]] = Sent(message, place, bytes(view))

    def note_promise(self, store: MessageStore) -> None:
        """Update the acknowledged position: confirmed with sync flush, otherwise flushed."""
        horizon = store.horizon
        self.promised = max(self.promised, horizon.confirmed if store.config.sync_flush else horizon.flushed)

    def reopened(self, store: MessageStore, *, failed_may_appear: bool = True) -> set[str]:
        """The store was opened again: messages that it lost must never come back."""
        found = self.check(store, failed_may_appear=failed_may_appear)
        for unique, sent in list(self.sent.items()):
            if sent.placed is not None and not sent.is_queued:
                view = store.reading.view_at(sent.placed.physical_offset)
                if view is not None and view == sent.data:
                    continue
            if unique not in found and not self._is_promised(sent):
                del self.sent[unique]
        self.note_promise(store)
        return found

    def _is_promised(self, sent: Sent) -> bool:
        return sent.placed is not None and sent.placed.physical_offset + sent.placed.size <= self.promised

    def acknowledged(self, log_start: int = 0) -> list[Sent]:
        return [
            sent
            for sent in self.sent.values()
            if self._is_promised(sent) and sent.placed is not None and sent.placed.physical_offset >= log_start
        ]

    # --- the invariants

    def check(self, store: MessageStore, *, failed_may_appear: bool = True) -> set[str]:
        """Check acknowledged ⊆ found ⊆ attempted, in order, with equal bytes in every way of reading. Return what was found."""
        found: set[str] = set()
        for topic, queue_id in sorted({(s.message.topic, s.message.queue_id) for s in self.sent.values()}):
            found |= self._check_queue(store, topic, queue_id, failed_may_appear)
        for sent in self.acknowledged(store.log.start):
            if sent.unique in self.lost_allowed:
                continue
            if sent.is_queued:
                assert sent.unique in found, f"{sent.unique} at {sent.placed} was acknowledged, and is not in its queue"
            else:
                assert sent.placed is not None
                view = store.reading.view_at(sent.placed.physical_offset)
                assert view is not None, f"{sent.unique} at {sent.placed} was acknowledged, and is not in the log"
                assert view == sent.data
        if store.index is not None:
            self._check_keys(store, found)
        return found

    def _check_queue(self, store: MessageStore, topic: str, queue_id: int, failed_may_appear: bool) -> set[str]:
        order = {unique: number for number, unique in enumerate(self.sent)}
        seen: dict[str, None] = {}
        before = (-1, -1, -1)
        for view in queue_views(store, topic, queue_id):
            record = decode_record(view)
            unique = unique_key(record)
            sent = self.sent.get(unique)
            assert sent is not None, f"{unique} was never sent"
            assert unique not in seen, f"{unique} is in its queue twice"
            self._check_same(sent, view, record, failed_may_appear)
            here = (record.queue_offset, record.physical_offset, order[unique])
            assert all(a < b for a, b in zip(before, here, strict=True)), f"{unique} is out of order: {before} then {here}"
            before = here
            seen[unique] = None
            assert store.reading.view_at(record.physical_offset) == view
        return set(seen)

    def _check_same(self, sent: Sent, view: memoryview, record: Record, failed_may_appear: bool) -> None:
        if sent.placed is not None:
            assert view == sent.data, f"{sent.unique} is not what was written"
            return
        assert failed_may_appear, f"{sent.unique} is there, although its append failed"
        was = sent.record
        for name in ("topic", "queue_id", "body", "properties", "flag", "born_timestamp", "born_host", "store_host"):
            assert getattr(record, name) == getattr(was, name), f"{sent.unique}: its {name} is not what was sent"

    def _check_keys(self, store: MessageStore, found: set[str]) -> None:
        wanted: dict[tuple[str, str], set[str]] = {}
        for unique in found:
            message = self.sent[unique].message
            for key in message.keys:
                wanted.setdefault((message.topic, key), set()).add(unique)
        for (topic, key), uniques in wanted.items():
            views = store.reading.query(topic, key, 0, FOREVER_MS, 10_000)
            records = [decode_record(view) for view in views]
            got = [unique_key(record) for record in records if record.sys_flag & TRANSACTION_MASK != TRANSACTION_PREPARED]
            assert len(got) == len(set(got)), f"{key} of {topic} finds a message twice"
            missing = uniques - set(got)
            assert not missing, f"{key} of {topic} does not find {sorted(missing)}"
            assert set(got) <= uniques, f"{key} of {topic} finds {sorted(set(got) - uniques)}, which no queue has"
            places = [record.physical_offset for record in records]
            assert places == sorted(places, reverse=True), f"{key} of {topic}: newest first"
            for record in records:
                assert key in index_keys(decode_properties(record.properties))


def numbered(
    count: int, topic: str = "orders", queue_id: int = 0, *, first: int = 0, body_bytes: int = 100
) -> list[AppendRequest]:
    """Make messages whose bodies start with their number, each with a unique key and a key."""
    return [
        a_message(topic, queue_id, f"{n:06d}".encode().ljust(body_bytes, b"."), keys=f"key{n}", tags="red", unique=f"U{n:08d}")
        for n in range(first, first + count)
    ]


def number_of(body: bytes) -> int:
    return int(body[:6])


def numbers(records: Iterable[Record]) -> list[int]:
    return [number_of(record.body) for record in records]

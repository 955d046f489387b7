"""Packs rows into send requests. Pure.

Rows of one topic share a batch message. Rows with a sharding key share a batch message for their queue.

    add(rows, queues)   yields the requests that these rows have filled
    rest()              yields the requests that are left at the end

Some messages cannot be in a batch, so each has its own request: delayed messages, compressed bodies (a batch has one flag for all
its messages), bodies as large as a batch, and messages to retry topics, which accept no batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from skyrocket.client.producer.compression import Compression
from skyrocket.client.producer.queue_selection import by_hash
from skyrocket.client.producer.request_frames import SendRequest
from skyrocket.client.queues import Queue
from skyrocket.protocol.message.batch import ENTRY_BYTES_MIN, encode_batch
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import RETRY_PREFIX
from skyrocket.spark.sink.rows import SinkRows

OPEN_BYTES_MAX: Final = 16 * 1024 * 1024  # total of unfilled batches; above it, the largest are sent as they are
_HASHES_MAX = 65_536
_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_ALONE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BATCH_PROPERTIES: Final = "WAIT\x01true\x02"  # of the request; brokers do not store them

Queues = Callable[[str], Sequence[Queue]]
"""Returns the writable queues of a topic, by its current route."""


class PackingKey(NamedTuple):
    """What the rows of one batch have in common."""

    topic: str
    queue: Queue | None  # None: any queue


class SinkRequest(NamedTuple):
    outgoing: SendRequest
    queue: Queue | None
    is_ordered: bool  # it must not overtake other requests to its queue


class _OpenBatch:
    """A batch with room for more messages."""

    __slots__ = ("entries", "size_bytes")

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes, int]] = []
        self.size_bytes = 0


class Packing:
    def __init__(self, bytes_max: int, messages_max: int, compression: Compression) -> None:
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._compression = compression
        self._open: dict[PackingKey, _OpenBatch] = {}
        self._queues_by_key: dict[tuple[str, str], Queue] = {}

    def add(self, rows: SinkRows, queues: Queues) -> Iterator[SinkRequest]:
        topics = rows.topics
        if not topics:
            return
        is_alone = self._needs_own_request(rows)
        if is_alone is None and rows.sharding_keys is None and topics[0] == topics[-1] and topics.count(topics[0]) == len(topics):
            yield from self._add(
                PackingKey(topics[0], None), list(zip(rows.bodies, rows.properties, [0] * len(topics), strict=True))
            )
        else:
            yield from self._add_by_key(rows, is_alone, queues)
        yield from self._close_largest()

    def rest(self) -> Iterator[SinkRequest]:
        for key in list(self._open):
            yield from self._close(key)

    def _needs_own_request(self, rows: SinkRows) -> list[bool] | None:
        """Return for each row whether it needs its own request; None if no row does."""
        wants, most = self._compression.wants, self._bytes_max - ENTRY_BYTES_MIN
        found = [
            wants(body) or len(body) + len(text) > most or topic.startswith(RETRY_PREFIX)
            for body, text, topic in zip(rows.bodies, rows.properties, rows.topics, strict=True)
        ]
        if rows.delayed is not None:
            found = [one or other for one, other in zip(found, rows.delayed, strict=True)]
        return found if True in found else None

    def _add_by_key(self, rows: SinkRows, is_alone: list[bool] | None, queues: Queues) -> Iterator[SinkRequest]:
        entries: dict[PackingKey, list[tuple[bytes, bytes, int]]] = {}
        sharding = rows.sharding_keys
        for at, (topic, body, text) in enumerate(zip(rows.topics, rows.bodies, rows.properties, strict=True)):
            shard = None if sharding is None else sharding[at]
            key = PackingKey(topic, None if shard is None else self._queue(topic, shard, queues))
            if is_alone is None or not is_alone[at]:
                entries.setdefault(key, []).append((body, text, 0))
                continue
            if key.queue is not None:  # earlier rows of this queue must be sent first
                yield from self._add(key, entries.pop(key, []))
                yield from self._close(key)
            yield self._single(key, body, text)
        for key, those in entries.items():
            yield from self._add(key, those)

    def _queue(self, topic: str, shard: str, queues: Queues) -> Queue:
        """Return the queue of a sharding key. It never changes in a task, so a changed route does not break the order."""
        found = self._queues_by_key.get((topic, shard))
        if found is None:
            found = by_hash(queues(topic), shard)
            if len(self._queues_by_key) < _HASHES_MAX:
                self._queues_by_key[topic, shard] = found
        return found

    def _single(self, key: PackingKey, body: bytes, text: bytes) -> SinkRequest:
        packed, bits = self._compression.pack(body)
        return SinkRequest(
            SendRequest(key.topic, _ALONE, "", text.decode(), packed, sys_flag=bits), key.queue, key.queue is not None
        )

    # --- batches

    def _add(self, key: PackingKey, entries: list[tuple[bytes, bytes, int]]) -> Iterator[SinkRequest]:
        if not entries:
            return
        sizes = [ENTRY_BYTES_MIN + len(body) + len(text) for body, text, _ in entries]
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _OpenBatch()
        start, offset_bytes, total_bytes = 0, batch.size_bytes, 0  # size of the batch = offset + running total
        for at, total_bytes in enumerate(accumulate(sizes)):
            if offset_bytes + total_bytes > self._bytes_max or len(batch.entries) + at - start >= self._messages_max:
                batch.entries += entries[start:at]
                if batch.entries:
                    yield _batch(key, batch.entries)
                batch = self._open[key] = _OpenBatch()
                start, offset_bytes = at, sizes[at] - total_bytes
        batch.entries += entries[start:]
        batch.size_bytes = offset_bytes + total_bytes

    def _close(self, key: PackingKey) -> Iterator[SinkRequest]:
        batch = self._open.pop(key, None)
        if batch is not None and batch.entries:
            yield _batch(key, batch.entries)

    def _close_largest(self) -> Iterator[SinkRequest]:
        total_bytes = sum(batch.size_bytes for batch in self._open.values())
        if total_bytes > OPEN_BYTES_MAX:
            for key in sorted(self._open, key=lambda key: -self._open[key].size_bytes):
                total_bytes -= self._open[key].size_bytes
                yield from self._close(key)
                if total_bytes <= OPEN_BYTES_MAX // 2:
                    return


def _batch(key: PackingKey, entries: list[tuple[bytes, bytes, int]]) -> SinkRequest:
    return SinkRequest(
        SendRequest(key.topic, _BATCH, "", _BATCH_PROPERTIES, encode_batch(entries)), key.queue, key.queue is not None
    )

"""The store and its disk: RocketMQ 5's names for what they cover, and ours for the rest."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from skyrocket.broker.admin.cold_answers import read_cold
from skyrocket.broker.context import BrokerContext
from skyrocket.metrics.family import Measured, counter, gauge, single
from skyrocket.store.cold_reads import RepeatedReads
from skyrocket.store.errors import StoreError

_LABELS: Final = ("storage_type", "storage_medium")
_VALUES: Final = ("local", "disk")
SIZE: Final = gauge("rocketmq_storage_size_bytes", "Used bytes of the file system of the store.", *_LABELS)
FLUSH_BEHIND: Final = gauge("rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not on disk yet.", *_LABELS)
DISPATCH_BEHIND: Final = gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Bytes of the log that consumers do not see yet.", *_LABELS
)
RESERVE_TIME: Final = gauge("rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message.", *_LABELS)

LOG_BYTES: Final = counter("skyrocket_log_written_bytes_total", "The end of the commit log: bytes that were ever written to it.")
LOG_START: Final = gauge("skyrocket_log_start_bytes", "The start of the commit log: what lies before it has expired.")
DISK_USED: Final = gauge("skyrocket_disk_used_ratio", "Used part of the disk, from 0 to 1, as retention counts it.", "disk")
DISK_FREE: Final = gauge("skyrocket_disk_free_bytes", "Free bytes of the disk.", "disk")
DISK_LIMIT: Final = gauge("skyrocket_disk_refuses_ratio", "Used part of the disk from which on messages are refused.")
RETENTION: Final = gauge("skyrocket_retention_seconds", "How long messages are kept, unless the disk fills up before.")
WRITABLE: Final = gauge("skyrocket_store_writable", "1: the store takes messages. 0: it does not; /readyz says why.")


class _Disk(NamedTuple):
    used: float
    free_bytes: int
    taken_bytes: int


class StorageMetrics:
    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._settings = context.settings
        self._wall_ms = context.wall_ms
        self._reads = RepeatedReads(context.store.reads)
        self._disks: dict[str, _Disk] = {}
        self._earliest_ms = -1

    async def prepare(self) -> None:
        """Measure the disks in a thread, and read the first message: both may wait for the disk."""
        self._disks = await asyncio.to_thread(self._measure)
        with suppress(StoreError):  # a damaged first message has no time
            self._earliest_ms = await read_cold(self._reads, "earliest", self._store.reading.earliest_timestamp)

    def _measure(self) -> dict[str, _Disk]:
        paths = self._store.paths
        found = {}
        for name, path in (("commitlog", str(paths.commit_log)), ("store", str(paths.root))):
            with suppress(OSError, StoreError):  # a disk that does not answer has no figures
                space = shutil.disk_usage(path)
                found[name] = _Disk(self._store.used_percent(path) / 100, space.free, space.total - space.free)
        return found

    def collect(self) -> Iterable[Measured]:
        horizon, log = self._store.horizon, self._store.log
        yield Measured(SIZE, [(_VALUES, disk.taken_bytes) for name, disk in self._disks.items() if name == "store"])
        yield Measured(FLUSH_BEHIND, [(_VALUES, horizon.appended - horizon.flushed)])
        yield Measured(DISPATCH_BEHIND, [(_VALUES, horizon.appended - horizon.confirmed)])
        age_ms = max(0, self._wall_ms() - self._earliest_ms)
        yield Measured(RESERVE_TIME, [(_VALUES, age_ms)] if self._earliest_ms > 0 else [])
        yield single(LOG_BYTES, log.end)
        yield single(LOG_START, log.start)
        yield Measured(DISK_USED, [((name,), disk.used) for name, disk in self._disks.items()])
        yield Measured(DISK_FREE, [((name,), disk.free_bytes) for name, disk in self._disks.items()])
        yield single(DISK_LIMIT, self._settings().disk_warning_percent / 100)
        yield single(RETENTION, self._settings().reserved_hours * 3600)
        yield single(WRITABLE, int(self._store.refusal is None))

"""The settings of the store, each with Apache's name for it in a comment."""

from __future__ import annotations

from dataclasses import dataclass

# Descriptors of an open store. Files that are not in use are closed, so a store of any size opens with these.
LOG_FILES_MAX = 64  # segments; a mapped file takes two descriptors
CHECKSUM_FILES_MAX = 16  # one for each segment that is read; mapped
FIXED_DESCRIPTORS = (
    256  # of everything but consume queues: segments, checksums, index, timers, directories, files that are replaced
)
QUEUE_FILES_MAX = 2048  # of consume queues, where the process may open that many

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def delay_levels_ms(text: str) -> tuple[int, ...]:
    """Parse the delays of levels 1, 2, …: '1s 5m' becomes (1000, 300000)."""
    try:
        return tuple(int(level[:-1]) * _UNIT_MS[level[-1]] for level in text.split())
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"'{text}' is not a list of delays such as '1s 5m 2h'.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    segment_bytes: int = 1024 * 1024 * 1024  # mappedFileSizeCommitLog
    queue_entries_per_file: int = 300_000  # mappedFileSizeConsumeQueue, in entries of 20 bytes
    index_slots: int = 5_000_000  # maxHashSlotNum
    index_entries: int = 20_000_000  # maxIndexNum
    index_enabled: bool = True  # messageIndexEnable

    sync_flush: bool = False  # flushDiskType=SYNC_FLUSH
    flush_interval_ms: int = 500  # flushIntervalCommitLog
    flush_least_pages: int = 4  # flushCommitLogLeastPages
    flush_thorough_interval_ms: int = 10_000  # flushCommitLogThoroughInterval
    checkpoint_interval_ms: int = 1_000  # flushIntervalConsumeQueue

    reserved_hours: int = 72  # fileReservedTime
    delete_at_hour: int = 4  # deleteWhen
    disk_max_used_percent: int = 75  # diskMaxUsedSpaceRatio: from here on, expired segments are deleted at any hour
    disk_clean_forcibly_percent: int = (
        85  # diskSpaceCleanForciblyRatio: from here on, the oldest segments are deleted, expired or not
    )
    disk_warning_percent: int = 90  # diskSpaceWarningLevelRatio: from here on, writes are refused

    delay_levels: str = DELAY_LEVELS  # messageDelayLevel: the queue entry of a delayed message holds its delivery time

    open_files_max: int = 512  # files of consume queues kept open; the least recently used that is synced is closed
    undispatched_max: int = (
        100_000  # messages whose dispatch waits in memory for confirmation; beyond this, the log is read again
    )

    def __post_init__(self) -> None:
        for percent in (self.disk_max_used_percent, self.disk_clean_forcibly_percent, self.disk_warning_percent):
            if not 10 <= percent <= 95:
                raise ValueError(f"A disk level of {percent} % is outside 10 to 95.")
        if not 0 <= self.delete_at_hour <= 23:
            raise ValueError(f"delete_at_hour is {self.delete_at_hour}; a day's hours are 0 to 23.")
        if self.segment_bytes < 4096 or self.queue_entries_per_file < 1 or self.index_slots < 1 or self.index_entries < 2:
            raise ValueError("A segment has at least 4096 bytes, a queue file 1 entry, an index 1 slot and 2 entries.")
        delay_levels_ms(self.delay_levels)

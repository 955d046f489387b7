"""Which segments of the commit log may be deleted. A pure decision: no clock, no file system.

Segments expire by age alone. It does not matter whether a consumer has read the messages: the log keeps them for as long as the
configuration says, and no slow reader can hold up a deletion. The segment that is being written is never deleted.

    disk below `disk_max_used_percent`    expired segments are deleted at the configured hour
    disk above a level                    `disk_space` decides what else is deleted
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyrocket.store.config import StoreConfig
from skyrocket.store.disk_space import decide_disk_actions

SEGMENTS_AT_ONCE = 10  # in one round: deleting gigabytes takes time, and the next round is ten seconds away
_HOUR_MS = 3_600_000


class RetentionPlan(NamedTuple):
    remove: int  # how many of the oldest segments to delete
    refuse_writes: bool
    reason: str  # for the broker's log; empty when nothing is deleted


def plan_retention(
    config: StoreConfig, last_stored_ms: Sequence[int], now_ms: int, hour: int, used_percent: float
) -> RetentionPlan:
    """Decide how many of the oldest segments to delete, and whether to refuse writes.

    `last_stored_ms` has the store time of each segment's last message, oldest segment first, without the one being written.
    """
    disk = decide_disk_actions(config, used_percent)
    if disk.deletes_unexpired:
        remove = min(len(last_stored_ms), SEGMENTS_AT_ONCE)
        reason = f"the disk is {used_percent:.0f} % full, above {config.disk_clean_forcibly_percent} %"
        return RetentionPlan(remove, disk.refuses_writes, reason)
    expired = 0
    for stored_ms in last_stored_ms[:SEGMENTS_AT_ONCE]:
        if now_ms - stored_ms < config.reserved_hours * _HOUR_MS:
            break
        expired += 1
    if expired and disk.deletes_expired_at_any_hour:
        return RetentionPlan(expired, disk.refuses_writes, f"expired, and the disk is {used_percent:.0f} % full")
    if expired and hour == config.delete_at_hour:
        return RetentionPlan(expired, disk.refuses_writes, f"older than {config.reserved_hours} hours")
    return RetentionPlan(0, disk.refuses_writes, "")

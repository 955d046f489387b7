"""What may go: the decision, without a clock or a disk.

    disk below `disk_max_used`            expired segments go at the configured hour
          above it                        expired segments go at any hour
          above `disk_clean_forcibly`     the oldest go, expired or not
          above `disk_warning`            the same, and there are no writes until it is below again

Consumed or not does not matter: a log keeps what it promised to keep, for as long as it promised, and no reader can hold it up.
The segment that is being written never goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyrocket.store.config import StoreConfig

SEGMENTS_AT_ONCE = 10  # of one round: deleting gigabytes takes time, and the next round is ten seconds away
_HOUR_MS = 3_600_000


class Verdict(NamedTuple):
    remove: int  # so many of the oldest segments
    refuse_writes: bool
    reason: str  # for the log; empty when there is nothing to say


def judge(config: StoreConfig, last_stored_ms: Sequence[int], now_ms: int, hour: int, used_percent: float) -> Verdict:
    """`last_stored_ms` has, oldest first, when each segment got its last message; the segment being written is not in it."""
    refuse = used_percent >= config.disk_warning_percent
    if used_percent >= config.disk_clean_forcibly_percent:
        remove = min(len(last_stored_ms), SEGMENTS_AT_ONCE)
        return Verdict(remove, refuse, f"the disk is {used_percent:.0f} % full, above {config.disk_clean_forcibly_percent} %")
    expired = 0
    for stored_ms in last_stored_ms[:SEGMENTS_AT_ONCE]:
        if now_ms - stored_ms < config.reserved_hours * _HOUR_MS:
            break
        expired += 1
    if expired and used_percent >= config.disk_max_used_percent:
        return Verdict(expired, refuse, f"expired, and the disk is {used_percent:.0f} % full")
    if expired and hour == config.delete_at_hour:
        return Verdict(expired, refuse, f"older than {config.reserved_hours} hours")
    return Verdict(0, refuse, "")

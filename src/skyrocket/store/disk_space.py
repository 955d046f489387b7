"""What the store does as the disk fills up. Pure decisions: no clock, no file system.

    used space, in percent               Apache's setting               what the store does
    ------------------------------------ ------------------------------ ------------------------------------------------
    below `disk_max_used_percent`                                       deletes expired segments at the configured hour
    from `disk_max_used_percent` on      diskMaxUsedSpaceRatio          deletes expired segments at any hour
    from `disk_clean_forcibly_percent`   diskSpaceCleanForciblyRatio    deletes the oldest segments, expired or not
    from `disk_warning_percent` on       diskSpaceWarningLevelRatio     refuses appends, until less space is used

`plan_retention` turns the deletions into a number of segments; `Retention.run` carries them out every few
seconds. A refused append raises DiskFullError, and the broker answers SERVICE_NOT_AVAILABLE. Reads go on at every level.

These levels keep a reserve. When the disk runs out of space nevertheless, the write fails with ENOSPC: `errors.store_error` turns
that into DiskFullError too, the append is undone as a whole, and the next one tries again.
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.store.config import StoreConfig


class DiskSpaceActions(NamedTuple):
    """What the used space calls for. Several may hold at once: the levels are set independently of each other."""

    deletes_expired_at_any_hour: bool
    deletes_unexpired: bool
    refuses_writes: bool


def decide_disk_actions(config: StoreConfig, used_percent: float) -> DiskSpaceActions:
    """Compare the used space with the three levels of the configuration."""
    return DiskSpaceActions(
        deletes_expired_at_any_hour=used_percent >= config.disk_max_used_percent,
        deletes_unexpired=used_percent >= config.disk_clean_forcibly_percent,
        refuses_writes=used_percent >= config.disk_warning_percent,
    )

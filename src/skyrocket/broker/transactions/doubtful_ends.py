"""Which ends of transactions a power failure has put in doubt. A decision about places in the log, without store or clock.

Sectors reach the disk in any order. So a power failure may lose a committed message and keep the op message behind it:

     log    … | half message | … | committed message: lost, set aside | … | op message: "the half message has ended" | …

Such an op message alone proves nothing. The half message has ended if its committed message is found; otherwise its producer is
asked again. That is also right for a rollback, which leaves no message to find.

Recovery keeps a file in `damaged/` for each range that it sets aside, so a later start comes to the same decision. The doubt is
over once the progress of the checks has passed the half messages before the damage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class DoubtfulEnds:
    def __init__(self, damage: Sequence[int], first: int, end: int) -> None:
        """`damage` are the log offsets where ranges begin that were set aside, in order.

        The first half message that is not done lies at `first`. What lies from `end` on was written since the start.
        """
        self._damage = [offset for offset in damage if first < offset < end]
        self._end = end

    def may_be_doubtful(self, op_place: int) -> bool:
        """Whether an op message at this log offset can be in doubt, for any half message."""
        return bool(self._damage) and self._damage[0] < op_place < self._end

    def is_doubtful(self, half_place: int, op_place: int) -> bool:
        """Whether damage lies between a half message and the op message that names it: where its committed message was."""
        at = bisect_right(self._damage, half_place)
        return at < len(self._damage) and self._damage[at] < op_place

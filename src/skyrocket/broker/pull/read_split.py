"""The read split: which broker a consumer should pull from next, the master or a slave.

A consumer that is far behind reads messages which are no longer in the memory of its broker, and disturbs those that are not.
So with slaveReadEnable the master sends it to a slave, and a slave sends it back when it has caught up:

    behind by more than accessMessageInMemoryMaxRatio % of the memory      the group's broker for slow consumers (1)
    otherwise                                                              the group's broker (0, the master)

At a slave the limit is ten points lower. So a consumer near the limit does not change its broker with each pull. (Apache 4.x has
this difference too; 5.5.0 has one limit.) Without slaveReadEnable the answer is always the master.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import SubscriptionGroupConfig

MASTER_ID: Final = 0
LOWER_AT_SLAVE_PERCENT: Final = 10


def machine_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class ReadSplit:
    def __init__(self, settings: Callable[[], BrokerSettings], memory_bytes: int | None = None) -> None:
        """`memory_bytes` is the memory of the machine; tests choose it."""
        self._settings = settings
        self._memory_bytes = machine_memory_bytes() if memory_bytes is None else memory_bytes

    @property
    def is_on(self) -> bool:
        return self._settings().slave_read

    def suggest(self, group: SubscriptionGroupConfig, behind_bytes: int | None) -> int:
        """Return the id of the broker to pull from next. `behind_bytes` lie between the last message of the answer and the end
        of the log; None when the answer has no message."""
        settings = self._settings()
        if not settings.slave_read:
            return MASTER_ID
        percent = settings.memory_read_percent
        if settings.role.is_slave:
            percent = max(0, percent - LOWER_AT_SLAVE_PERCENT)
        is_slow = behind_bytes is not None and behind_bytes * 100 > self._memory_bytes * percent
        return group.which_broker_when_consume_slowly if is_slow else group.broker_id

"""The roles of a broker in a pair of master and slave, and how many copies each waits for. The names are those of brokerRole.

    copies_needed(role, inSyncReplicas)        the master's own copy included: 1 waits for nobody
    confirmed_by_slaves([900, 700, 500], 2)    700: two slaves have everything before it

`inSyncReplicas` is Apache's key. Apache 5.5.0 waits for nobody when it is not set, even if the role is SYNC_MASTER. Here a
SYNC_MASTER then waits for one slave, as its name says, and as Apache's did before version 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class BrokerRole(StrEnum):
    """What a broker does for the other brokers of its name."""

    ASYNC_MASTER = "ASYNC_MASTER"  # takes writes; slaves copy the log when they can
    SYNC_MASTER = "SYNC_MASTER"  # takes writes; a send is answered when enough slaves have the message
    SLAVE = "SLAVE"  # copies its master's log, serves reads and refuses writes

    @property
    def is_slave(self) -> bool:
        return self is BrokerRole.SLAVE


def copies_needed(role: BrokerRole, in_sync_replicas: int) -> int:
    """Return how many brokers must have a message before its send is answered."""
    if role is not BrokerRole.SYNC_MASTER:
        return 1
    return in_sync_replicas or 2


def confirmed_by_slaves(acknowledged: Iterable[int], slaves: int) -> int:
    """Return the position before which at least so many slaves have everything; 0 when there are fewer slaves."""
    assert slaves > 0
    highest = sorted(acknowledged, reverse=True)
    return highest[slaves - 1] if len(highest) >= slaves else 0

"""The roles of a broker in a pair of master and slave. Names and meaning are those of Apache's brokerRole."""

from __future__ import annotations

from enum import StrEnum


class BrokerRole(StrEnum):
    """What a broker does for the other brokers of its name."""

    ASYNC_MASTER = "ASYNC_MASTER"  # takes writes; slaves copy the log when they can
    SYNC_MASTER = "SYNC_MASTER"  # takes writes; a send is answered when enough slaves have the message
    SLAVE = "SLAVE"  # copies its master's log, serves reads and refuses writes

    @property
    def is_slave(self) -> bool:
        return self is BrokerRole.SLAVE

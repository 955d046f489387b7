"""What a slave knows of its master: the address for requests, and the address of its log.

The nameservers tell both in their answers to a registration. While the master is away they tell neither. Then the tables of the
master are not copied, and the copy of its log tries the last address again, as Apache's slave does.

    learn(address, ha_address)      a nameserver has answered
    address                         for requests; None while the master is away
    ha_address                      where the master sends its log; the setting haMasterAddress wins
    on_address                      called with a new address for requests
    add_follower(follower)          the follower copies the log: it is told a new address of it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class MasterFollower(Protocol):
    """A part that copies the master's log."""

    def set_master(self, ha_address: str, broker_address: str = "") -> None:
        """Copy from `ha_address` from now on. `broker_address` is the master's address for requests; empty: it is not known."""
        ...


class KnownMaster:
    def __init__(self, configured_ha_address: str = "") -> None:
        """`configured_ha_address` is the setting haMasterAddress: an address that no nameserver changes."""
        self._is_configured = bool(configured_ha_address)
        self.address: str | None = None
        self.ha_address: str | None = configured_ha_address or None
        self.on_address: list[Callable[[str | None], None]] = []
        self._followers: list[MasterFollower] = []

    def add_follower(self, follower: MasterFollower) -> None:
        """Tell a follower where the log is: now, if that is known, and whenever it changes."""
        self._followers.append(follower)
        if self.ha_address is not None:
            follower.set_master(self.ha_address, self.address or "")

    def learn(self, address: str | None, ha_address: str | None) -> None:
        """Take note of what a nameserver says. While the master is away it names no address of the log: keep the old one."""
        before, self.address = (self.address, self.ha_address), address or None
        if ha_address and not self._is_configured:
            self.ha_address = ha_address
        if self.ha_address is not None and self.address is not None and (self.address, self.ha_address) != before:
            for follower in self._followers:
                follower.set_master(self.ha_address, self.address)
        if self.address != before[0]:
            for notify in self.on_address:
                notify(self.address)

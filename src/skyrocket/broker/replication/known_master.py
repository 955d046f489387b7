"""What a slave knows of its master: the address for requests, and the address of its log.

The nameservers tell both in their answers to a registration. While the master is away they tell neither. Then the tables of the
master are not copied, and the copy of its log tries the last address again, as Apache's slave does.

    learn(address, ha_address)      a nameserver has answered
    address                         for requests; None while the master is away
    ha_address                      where the master sends its log; the setting haMasterAddress wins
    on_address, on_ha_address       called with a new address
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class MasterFollower(Protocol):
    """A part that copies the master's log."""

    def set_master(self, ha_address: str | None) -> None:
        """Copy from this address from now on. None: no master is known yet."""
        ...


class KnownMaster:
    def __init__(self, configured_ha_address: str = "") -> None:
        """`configured_ha_address` is the setting haMasterAddress: an address that no nameserver changes."""
        self._is_configured = bool(configured_ha_address)
        self.address: str | None = None
        self.ha_address: str | None = configured_ha_address or None
        self.on_address: list[Callable[[str | None], None]] = []
        self.on_ha_address: list[Callable[[str | None], None]] = []

    def add_follower(self, follower: MasterFollower) -> None:
        """Tell a follower the address of the log: the one that is known now, and each new one."""
        self.on_ha_address.append(follower.set_master)
        follower.set_master(self.ha_address)

    def learn(self, address: str | None, ha_address: str | None) -> None:
        """Take note of what a nameserver says. While the master is away it names no address of the log: keep the old one."""
        if ha_address and not self._is_configured and ha_address != self.ha_address:
            self.ha_address = ha_address
            for notify in self.on_ha_address:
                notify(ha_address)
        if (address or None) != self.address:
            self.address = address or None
            for notify in self.on_address:
                notify(self.address)

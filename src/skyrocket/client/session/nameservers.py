"""Nameservers: which one a session uses, and how an address server lists them.

All nameservers have the same routes, so a session uses one as long as it answers. Sessions begin with different ones, which
spreads the load.
"""

from __future__ import annotations

import logging

from skyrocket.chance import CHANCE
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import parse_addresses
from skyrocket.net.address_server import address_server_url, fetch_address_list
from skyrocket.net.errors import NetError

log = logging.getLogger(__name__)


class NameserverRotation:
    """The nameservers' addresses, and which one comes first. Pure. `start` is any number that selects the first."""

    def __init__(self, addresses: tuple[str, ...], start: int | None = None) -> None:
        self._addresses = addresses
        self._at = CHANCE.randrange(1 << 30) if start is None else start

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._addresses

    def in_turn(self) -> list[str]:
        """Return all addresses, the current one first."""
        if not self._addresses:
            return []
        at = self._at % len(self._addresses)
        return [*self._addresses[at:], *self._addresses[:at]]

    def mark_failed(self, address: str) -> None:
        """Make the next nameserver the current one, if this one was."""
        if self._addresses and self._addresses[self._at % len(self._addresses)] == address:
            self._at += 1

    def replace(self, addresses: tuple[str, ...]) -> bool:
        """Take the addresses of an address server. Return whether they differ; an empty list changes nothing."""
        if not addresses or addresses == self._addresses:
            return False
        self._addresses = addresses
        return True


async def fetch_nameservers(address_server: str) -> tuple[str, ...]:
    """Return the addresses that an address server lists; none, with a warning in the log, when it does not answer."""
    try:
        return parse_addresses(await fetch_address_list(address_server_url(address_server)))
    except (NetError, ConfigurationError) as error:
        log.warning("There are no nameservers from address server %s: %s", address_server, error)
        return ()

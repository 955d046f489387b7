"""The broker's address for clients: what nameservers put into routes, and what records carry as their store host.

brokerIP1 says it, or else bindAddress. A broker that listens on all addresses needs a real one: in a route, 0.0.0.0 would make
every client connect to its own machine.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import replace

from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.local_address import is_wildcard, reachable_address
from skyrocket.settings.errors import SettingsError

log = logging.getLogger(__name__)


async def choose_advertised_host(
    settings: BrokerSettings, find_address: Callable[..., str | None] = reachable_address
) -> BrokerSettings:
    """Return the settings with an address of this machine as brokerIP1, if the broker listens on all addresses and has none.

    Raise SettingsError when this machine has no address that others can reach.
    """
    if settings.advertised_host or not is_wildcard(settings.host):
        return settings
    nameserver_hosts = [address.rpartition(":")[0].strip("[]") for address in settings.nameservers]
    found = await asyncio.to_thread(find_address, nameserver_hosts, v6=":" in settings.host)  # a host name may take a while
    if found is None:
        raise SettingsError(
            f"bindAddress is {settings.host}, and this machine has no address that other machines could connect to. "
            f"Set brokerIP1 to the address for clients, for example brokerIP1=127.0.0.1 for clients on this machine."
        )
    log.info("The broker listens on %s and tells clients to connect to %s. brokerIP1 chooses another.", settings.host, found)
    return replace(settings, advertised_host=found)


async def resolve_advertised_host(settings: BrokerSettings) -> str:
    """Return the IP address of the broker's address for clients. A record has no room for a host name."""
    host = settings.advertised_host or settings.host
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        key = "brokerIP1" if settings.advertised_host else "bindAddress"
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise SettingsError(f"{key} is '{host}', which has no address: {reason}.") from error
    addresses = [str(sockaddr[0]) for *_, sockaddr in found]
    return min(addresses, key=lambda address: ":" in address)  # IPv4 if it has one, as Java's broker

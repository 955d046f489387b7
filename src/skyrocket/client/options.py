"""What a client has to know before it can begin: where the nameservers are, and how to talk to a cluster.

Clients with equal options in one event loop share one session: one connection to each broker, one set of routes and heartbeats.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.limits import ClientLimits

if TYPE_CHECKING:
    from skyrocket.client.session.credentials import Credentials

NAMESERVERS_VARIABLE: Final = "NAMESRV_ADDR"

Nameservers = str | Iterable[str] | None
"""One address, several with ; between, or several in a list. None: what the environment's NAMESRV_ADDR says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    nameservers: tuple[str, ...] = ()  # host:port; empty: the address server knows
    address_server: str = ""  # http://host:8080/rocketmq/nsaddr: answers with the nameservers' addresses
    namespace: str = ""
    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None
    instance: str = ""  # clients with different ones share nothing
    limits: ClientLimits = field(default_factory=ClientLimits)


def client_options(
    nameservers: Nameservers = None,
    *,
    address_server: str = "",
    namespace: str = "",
    tls: ssl.SSLContext | bool = False,
    credentials: Credentials | None = None,
    instance: str = "",
    limits: ClientLimits | None = None,
) -> ClientOptions:
    """The options from what users write. ConfigurationError where they cannot be meant."""
    found = _addresses(nameservers)
    if not found and not address_server:
        found = _addresses(os.environ.get(NAMESERVERS_VARIABLE))
    if not found and not address_server:
        raise ConfigurationError(
            f"No nameserver is given: pass one such as '127.0.0.1:9876', set {NAMESERVERS_VARIABLE}, or name an address server."
        )
    context = (_default_tls() if tls else None) if isinstance(tls, bool) else tls
    return ClientOptions(
        nameservers=found,
        address_server=address_server,
        namespace=namespace,
        tls=context,
        credentials=credentials,
        instance=instance,
        limits=limits or ClientLimits(),
    )


def parse_addresses(text: str) -> tuple[str, ...]:
    """host:port;host:port, as the environment and address servers write them."""
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    for address in addresses:
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ConfigurationError(f"'{address}' is not an address such as 127.0.0.1:9876.")
    return addresses


def _addresses(nameservers: Nameservers) -> tuple[str, ...]:
    if nameservers is None:
        return ()
    return parse_addresses(nameservers if isinstance(nameservers, str) else ";".join(nameservers))


_tls: ssl.SSLContext | None = None


def _default_tls() -> ssl.SSLContext:
    """One for all who say only `tls=True`, so that they share their connections. It checks certificates and names."""
    global _tls  # noqa: PLW0603
    if _tls is None:
        _tls = ssl.create_default_context()
    return _tls

"""The options that producers, consumers and `Admin` share: where the nameservers are, and how to talk to the cluster.

    options = ClientOptions("10.0.0.1:9876;10.0.0.2:9876", tls=True, credentials=Credentials("key", "secret"))
    Producer(options=options, group="signup")
    Consumer(options=options, group="coupons")
    Producer("127.0.0.1:9876", tls=True)                # keyword shortcuts: the client builds a ClientOptions from them

Clients with equal options in one event loop share one session: one connection to each broker, one set of routes and heartbeats.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypedDict

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.limits import ClientLimits

if TYPE_CHECKING:
    from skyrocket.client.session.credentials import Credentials

NAMESERVERS_VARIABLE: Final = "NAMESRV_ADDR"
_PORT_MAX = 65_535
_HOST = re.compile(r"[^\s,/@\[\]]+")
_BETWEEN_ADDRESSES = re.compile(r"[\s,|]+")

Nameservers = str | Iterable[str] | None
"""One address, several separated by ";", or a list of addresses. None: the environment variable NAMESRV_ADDR."""


class ClientKeywords(TypedDict, total=False):
    """The fields of `ClientOptions` as keyword arguments of a client. A keyword wins over the field of `options`."""

    namespace: str
    address_server: str
    tls: ssl.SSLContext | bool | None
    credentials: Credentials | None
    instance: str
    limits: ClientLimits | None


@dataclass(frozen=True, slots=True, init=False)
class ClientOptions:
    """What all clients of one cluster have in common. Equal values make clients share a session.

    `ClientOptions(nameservers=None, *, namespace="", address_server="", tls=False, credentials=None, instance="", limits=None)`

    `nameservers` is one address, several separated by ";", or a list. Without it, and without an address server, the environment
    variable NAMESRV_ADDR is read. `tls=True` stands for a context that checks certificates and host names.
    """

    nameservers: tuple[str, ...]  # host:port each; empty when an address server supplies them
    namespace: str = ""  # a prefix of topics and groups, `shop%orders`, as in Apache's clients
    address_server: str = ""  # URL that returns the nameservers' addresses, such as http://host:8080/rocketmq/nsaddr
    tls: ssl.SSLContext | None = None  # None: plain TCP
    credentials: Credentials | None = None  # sign every request with this access key
    instance: str = ""  # clients with different instance names share no connection
    limits: ClientLimits = field(default_factory=ClientLimits)  # every bound and period

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        namespace: str = "",
        address_server: str = "",
        tls: ssl.SSLContext | bool | None = False,
        credentials: Credentials | None = None,
        instance: str = "",
        limits: ClientLimits | None = None,
    ) -> None:
        """Raise ConfigurationError when no nameserver is given or an address is malformed."""
        addresses = _to_addresses(nameservers)
        if not addresses and not address_server:
            addresses = _to_addresses(os.environ.get(NAMESERVERS_VARIABLE))
        if not addresses and not address_server:
            raise ConfigurationError(
                f"No nameserver is given. Pass an address such as '127.0.0.1:9876', set the environment variable "
                f"{NAMESERVERS_VARIABLE}, or pass address_server='http://host:8080/rocketmq/nsaddr'."
            )
        assign = object.__setattr__  # the dataclass is frozen
        assign(self, "nameservers", addresses)
        assign(self, "namespace", namespace)
        assign(self, "address_server", address_server)
        assign(self, "tls", _default_tls() if tls is True else tls or None)
        assign(self, "credentials", credentials)
        assign(self, "instance", instance)
        assign(self, "limits", limits or ClientLimits())


def resolve_options(options: ClientOptions | None, nameservers: Nameservers, keywords: ClientKeywords) -> ClientOptions:
    """Merge what a client's constructor receives: `options`, with the address and the keywords that override its fields."""
    if options is None:
        return ClientOptions(nameservers, **keywords)
    if nameservers is None and not keywords:
        return options
    merged: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(options)}
    merged.update(keywords)
    if nameservers is not None:
        merged["nameservers"] = nameservers
    return ClientOptions(**merged)


def parse_addresses(text: str) -> tuple[str, ...]:
    """Parse `host:port;host:port`, the form that NAMESRV_ADDR and address servers use."""
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    for address in addresses:
        host, separator, port = address.rpartition(":")
        if not separator or not _is_host(host) or not port.isdigit() or not 0 < int(port) <= _PORT_MAX:
            advice = "Write host:port, such as 127.0.0.1:9876."
            if address.count(":") > 1 and _BETWEEN_ADDRESSES.search(address):
                advice = f"Separate several with ';': {';'.join(_BETWEEN_ADDRESSES.split(address))}"
            raise ConfigurationError(f"'{address}' is not a nameserver address. {advice}")
    return addresses


def _is_host(host: str) -> bool:
    """Whether a text can be a host name or an IP address. An IPv6 address may have brackets."""
    if ":" not in host:
        return bool(_HOST.fullmatch(host))
    try:
        return bool(ipaddress.IPv6Address(host[1:-1] if host[:1] + host[-1:] == "[]" else host))
    except ValueError:
        return False


def _to_addresses(nameservers: Nameservers) -> tuple[str, ...]:
    if nameservers is None:
        return ()
    return parse_addresses(nameservers if isinstance(nameservers, str) else ";".join(nameservers))


_tls: ssl.SSLContext | None = None


def _default_tls() -> ssl.SSLContext:
    """Return the context for `tls=True`. All clients get the same object, so that their options are equal and they share
    connections."""
    global _tls  # noqa: PLW0603
    if _tls is None:
        _tls = ssl.create_default_context()
    return _tls

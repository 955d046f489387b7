"""The proxy's settings. Those of connections, TLS and limits are the ones that every server has."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from skyrocket.net.local_address import is_wildcard, reachable_address
from skyrocket.net.tls import client_context
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.file import read_required_texts
from skyrocket.settings.kinds import ADDRESSES, BOOLEAN, HOST, PORT, TEXT, ValueKind
from skyrocket.settings.server import ServerSettings
from skyrocket.settings.table import setting

_BROKER_PORT: Final = re.compile(r"([%|a-zA-Z0-9_-]{1,127})(?::([0-9]{1,9}))?=([0-9]{1,5})")


class BrokerPort(NamedTuple):
    """A port of the proxy that belongs to one broker."""

    name: str
    broker_id: int
    port: int


def _parse_broker_ports(text: str) -> tuple[BrokerPort, ...]:
    ports: list[BrokerPort] = []
    for part in filter(None, map(str.strip, text.split(";"))):
        found = _BROKER_PORT.fullmatch(part)
        if found is None:
            raise ValueError(text)
        ports.append(BrokerPort(found[1], int(found[2] or 0), PORT.read(found[3])))
    return tuple(ports)


def _format_broker_ports(ports: tuple[BrokerPort, ...]) -> str:
    return ";".join(f"{each.name}:{each.broker_id}={each.port}" for each in ports)


BROKER_PORTS: Final = ValueKind(
    "ports of brokers, such as broker-a=8101;broker-b=8102;broker-b:1=8103", _parse_broker_ports, _format_broker_ports
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings(ServerSettings):
    OWNER: ClassVar[str] = "the proxy"

    # fmt: off
    # One or two lines a row.
    bind_address: str = setting("127.0.0.1", "bindAddress", HOST, "Where to listen.")
    listen_port: int = setting(8080, "remotingListenPort", PORT,
        "The port of nameserver and brokers, as Apache's proxy has it; 0 lets the system choose.")
    advertised_host: str = setting("", "advertisedHost", TEXT, "The host that clients connect to; empty: bindAddress.")
    namesrv_addr: str = setting("127.0.0.1:9876", "namesrvAddr", ADDRESSES, "The nameservers, as host:port;host:port.")
    broker_ports: tuple[BrokerPort, ...] = setting((), "brokerPorts", BROKER_PORTS,
        "Ports of their own for brokers (a slave: broker-a:1=8102): for clients of RocketMQ 4 and for administrators' tools.")
    namesrv_admin: bool = setting(False, "namesrvAdminEnable", BOOLEAN,
        "Pass on what changes nameservers, and their settings. Apache's nameserver lets everybody do that.")
    audit_log_path: str = setting("", "authAuditLogPath", TEXT,
        "The audit log of requests that the proxy refuses because clients may not send them; empty: none.")
    tls_to_servers: bool = setting(False, "tls.enable", BOOLEAN, "Connect to nameservers and brokers with TLS.")
    tls_client_certificate: str = setting("", "tls.client.certPath", TEXT,
        "The certificate to show to nameservers and brokers.")
    tls_client_key: str = setting("", "tls.client.keyPath", TEXT, "The key of that certificate.")
    tls_client_key_password: str = setting("", "tls.client.keyPassword", TEXT, "The password of that key.")
    tls_client_trusted: str = setting("", "tls.client.trustCertPath", TEXT,
        "The certificates that sign those of nameservers and brokers; empty: those that the system trusts.")
    tls_verify_servers: bool = setting(True, "tls.client.authServer", BOOLEAN,
        "Verify the certificates and names of nameservers and brokers.")
    # fmt: on

    def client_tls(self) -> ssl.SSLContext | None:
        """Load what connections to the cluster need; None when they are plain. Raise NetError when it cannot be used."""
        if not self.tls_to_servers:
            return None
        return client_context(
            self.tls_client_certificate,
            self.tls_client_key,
            password=self.tls_client_key_password,
            trusted=self.tls_client_trusted,
            verifies=self.tls_verify_servers,
        )

    @property
    def nameservers(self) -> tuple[str, ...]:
        return tuple(address.strip() for address in self.namesrv_addr.split(";") if address.strip())

    @property
    def visible_host(self) -> str:
        """The host that clients find in routes. Raise SettingsError when it would be an address that nobody can connect to."""
        host = self.advertised_host or self.bind_address
        if is_wildcard(host):
            found = reachable_address(v6=":" in host) if not self.advertised_host else None
            if found is None:
                raise SettingsError(f"No client can connect to {host}. Set advertisedHost to the address that clients use.")
            host = found
        return f"[{host}]" if ":" in host else host

    def check(self) -> None:
        ServerSettings.check(self)
        if not self.nameservers:
            raise ValueError("The proxy needs namesrvAddr, or -n HOST:PORT.")
        ports = [port for port in (self.listen_port, *(each.port for each in self.broker_ports)) if port]
        if len(set(ports)) < len(ports):
            raise ValueError("Each broker of brokerPorts needs a port of its own, which is not remotingListenPort.")
        if len({each[:2] for each in self.broker_ports}) < len(self.broker_ports):
            raise ValueError("brokerPorts names a broker twice.")


def read_settings(path: Path) -> ProxySettings:
    """Read settings from a properties file. Raise SettingsError when it is unusable."""
    return ProxySettings().with_texts(read_required_texts(path))

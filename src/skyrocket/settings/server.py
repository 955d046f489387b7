"""The settings that every server has: what one client may use, what is logged, and TLS.

Apache's keys and meanings, with two exceptions that are safer: a server with a certificate accepts nothing but TLS unless
`tls.server.mode` says otherwise, and a client's certificate is always verified.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass, fields
from typing import Any, Final

from skyrocket.net.limits import NetLimits
from skyrocket.net.quota import QuotaRates
from skyrocket.net.tls import server_context
from skyrocket.settings.kinds import BOOLEAN, TEXT, one_of, whole
from skyrocket.settings.table import Settings, setting

LOG_LEVEL: Final = one_of({logging.getLevelName(level): level for level in (10, 20, 30, 40)})
TLS_MODE: Final = one_of({"disabled": "disabled", "permissive": "permissive", "enforcing": "enforcing"})
CLIENT_CERTIFICATES: Final = one_of({"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED})
_LIMITS: Final = NetLimits()
_RATE: Final = whole(0, 2**40)
_CONNECTIONS: Final = whole(1, 1_000_000)
_BYTES: Final = whole(1024 * 1024, 2**40)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(Settings):
    # fmt: off
    # One setting a row, of one or two lines.
    connections_max: int = setting(_LIMITS.connections_max, "connectionsMax", _CONNECTIONS, "Connections of all clients.")
    connections_per_address_max: int = setting(_LIMITS.connections_per_address_max, "connectionsPerAddressMax", _CONNECTIONS,
        "Connections of one address.")
    requests_per_second: int = setting(0, "requestsPerSecondPerAddress", _RATE,
        "Requests of one address in a second; above it, the address is slowed down, then refused. 0: no limit.", changeable=True)
    bytes_per_second: int = setting(0, "bytesPerSecondPerAddress", _RATE,
        "Bytes from and to one address in a second; above it likewise. 0: no limit.", changeable=True)
    unread_bytes_max: int = setting(_LIMITS.in_flight_max_bytes, "unreadBytesMax", _BYTES,
        "Bytes that wait until clients read them; above it, each address has an equal share.")
    unread_bytes_per_address_max: int = setting(_LIMITS.held_per_address_max_bytes, "unreadBytesPerAddressMax", _BYTES,
        "Bytes that wait until one address reads them; above it, its connections are closed.")
    idle_s: int = setting(120, "serverChannelMaxIdleTimeSeconds", whole(1, 24 * 3600),
        "Seconds without a byte after which a connection is closed.")
    log_level: int = setting(logging.INFO, "logLevel", LOG_LEVEL,
        "The least important lines that are logged.", changeable=True)
    slow_request_ms: int = setting(1_000, "slowRequestMs", whole(0, 3_600_000),
        "Requests of one read that take longer to handle are logged. 0: none.", changeable=True)
    tls_certificate: str = setting("", "tls.server.certPath", TEXT,
        "A certificate in PEM, with its chain; with it, the server speaks TLS on the same ports.")
    tls_key: str = setting("", "tls.server.keyPath", TEXT, "The key of the certificate, in PEM.")
    tls_key_password: str = setting("", "tls.server.keyPassword", TEXT, "The password of the key.")
    tls_mode: str | None = setting(None, "tls.server.mode", TLS_MODE,
        "enforcing closes plain connections, permissive accepts them. Without it: enforcing if there is a certificate.")
    tls_client_certificates: ssl.VerifyMode = setting(  # noqa: RUF009 — an enum
        ssl.CERT_NONE, "tls.server.need.client.auth", CLIENT_CERTIFICATES,
        "require refuses clients without a certificate that tls.server.trustCertPath signed.")
    tls_trusted: str = setting("", "tls.server.trustCertPath", TEXT, "The certificates, in PEM, that sign those of clients.")
    tls_verify_clients: bool = setting(True, "tls.server.authClient", BOOLEAN,
        "Apache's switch for verifying clients' certificates; here they are always verified.")
    # fmt: on

    @property
    def tls_only(self) -> bool:
        """Whether plain connections are closed."""
        return bool(self.tls_certificate) if self.tls_mode is None else self.tls_mode == "enforcing"

    @property
    def requires_certificates(self) -> bool:
        """Whether only clients with a certificate that the server trusts can connect."""
        return self.tls_only and self.tls_client_certificates is ssl.CERT_REQUIRED

    def server_tls(self) -> ssl.SSLContext | None:
        """Load the certificates; None when the server does not speak TLS. Raise NetError when they cannot be used."""
        if self.tls_mode == "disabled":
            return None
        return server_context(
            self.tls_certificate,
            self.tls_key,
            password=self.tls_key_password,
            trusted=self.tls_trusted,
            client_certificates=self.tls_client_certificates,
        )

    def net_limits(self) -> NetLimits:
        return NetLimits(
            connections_max=self.connections_max,
            connections_per_address_max=self.connections_per_address_max,
            in_flight_max_bytes=self.unread_bytes_max,
            held_max_bytes=2 * self.unread_bytes_max,
            held_per_address_max_bytes=self.unread_bytes_per_address_max,
            idle_ms=self.idle_s * 1000,
            quota=self.quota(),
        )

    def quota(self) -> QuotaRates:
        return QuotaRates(self.requests_per_second, self.bytes_per_second)

    def shared_values(self) -> dict[str, Any]:
        """Return the values of these settings by attribute: for another server of the same process."""
        return {each.name: getattr(self, each.name) for each in fields(ServerSettings)}

    def check(self) -> None:
        wants_certificates = self.tls_client_certificates is not ssl.CERT_NONE
        if self.tls_mode == "enforcing" and not self.tls_certificate:
            raise ValueError("tls.server.mode=enforcing needs a certificate: set tls.server.certPath and tls.server.keyPath.")
        if wants_certificates and not self.tls_trusted:
            raise ValueError("tls.server.need.client.auth needs tls.server.trustCertPath, which names the certificates to trust.")
        if wants_certificates and not self.tls_verify_clients:
            raise ValueError(
                "tls.server.authClient=false would accept any certificate. Remove it, or set tls.server.need.client.auth=none."
            )

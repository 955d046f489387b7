"""Which ports of a server strangers could use. A server with such a port starts only with --insecure.

| port                    | is closed to strangers by                                                              |
|-------------------------|----------------------------------------------------------------------------------------|
| of clients              | access control, or required client certificates                                        |
| HA (master)             | a secret (haSecretPath), or TLS with required client certificates                      |
| of a DLedger node       | TLS with required client certificates                                                  |
| metrics and health      | metricsAllowedAddresses: which addresses may read them                                 |

All of them are closed where they listen on loopback alone.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from skyrocket.broker.dledger.group_settings import read_group
from skyrocket.broker.settings import BrokerSettings
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.local_address import is_loopback
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.metrics import MetricsExporter

log = logging.getLogger(__name__)


class Exposure(NamedTuple):
    """A port that strangers could use."""

    danger: str
    remedy: str  # completes "Set …, or give --insecure."


def check_exposure(settings: BrokerSettings | NameserverSettings, *, insecure: bool) -> None:
    """Raise SettingsError when strangers could use the server; with `insecure`, warn instead."""
    for danger, remedy in find_exposures(settings):
        if not insecure:
            raise SettingsError(f"{danger} Set {remedy} (docs/security.md), or give --insecure.")
        log.warning("%s It was started with --insecure.", danger)


def find_exposures(settings: BrokerSettings | NameserverSettings) -> Iterator[Exposure]:
    """Say which ports strangers could use."""
    owner = f"{settings.OWNER[:1].upper()}{settings.OWNER[1:]}"
    host = settings.host if isinstance(settings, BrokerSettings) else settings.bind_address
    if not is_loopback(host):
        if not settings.authentication_enabled and not settings.requires_certificates:
            yield Exposure(
                f"{owner} listens on {host} without access control: anyone who can connect can read, write and delete.",
                "authenticationEnabled, or tls.server.need.client.auth=require",
            )
        if isinstance(settings, BrokerSettings):
            yield from _find_exposed_copies(settings, host)
    if settings.metrics_exporter is MetricsExporter.PROM and not settings.metrics_readers:
        page_host, _ = settings.metrics_address
        if not is_loopback(page_host):
            yield Exposure(
                f"The metrics of {settings.OWNER} are on {page_host}: anyone who can connect can read the names of topics and "
                f"groups, and how much they carry.",
                "metricsAllowedAddresses to the addresses that may read them",
            )


def _find_exposed_copies(settings: BrokerSettings, host: str) -> Iterator[Exposure]:
    """Look at the port over which the log is copied."""
    if settings.dledger:
        node_host = read_group(settings).listen_host(host)
        if not is_loopback(node_host) and not _requires_certificates(settings, speaks_tls=settings.uses_dledger_tls):
            yield Exposure(
                f"The port of the DLedger node listens on {node_host} without client certificates: anyone who can connect can "
                f"vote, read and write the log, and move the leadership.",
                "tls.server.need.client.auth=require, with tls.dledger.enable=true",
            )
    elif not settings.role.is_slave and not (
        settings.ha_secret_path or _requires_certificates(settings, speaks_tls=settings.uses_ha_tls)
    ):
        yield Exposure(
            f"The HA port of the broker listens on {host} without a secret: anyone who can connect can read all messages, and "
            f"confirm them as a slave does.",
            "haSecretPath to a file with a secret that master and slaves share, or tls.server.need.client.auth=require with "
            "tls.ha.enable=true",
        )


def _requires_certificates(settings: BrokerSettings, *, speaks_tls: bool) -> bool:
    """Whether a port that is to speak TLS does so, and refuses strangers. One-way TLS tells a slave who the master is, not the
    master who the slave is."""
    return speaks_tls and settings.tls_mode != "disabled" and settings.tls_client_certificates is ssl.CERT_REQUIRED

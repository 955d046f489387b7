"""Nameservers: which one a session uses, and how an address server lists them.

All nameservers have the same routes, so a session uses one as long as it answers. Sessions begin with different ones, which
spreads the load.
"""

from __future__ import annotations

import asyncio
import logging
import random
import urllib.parse

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import parse_addresses

log = logging.getLogger(__name__)

_RESPONSE_BYTES_MAX = 64 * 1024
_ADDRESS_SERVER_S_MAX = 3.0


class NameserverRotation:
    """The nameservers' addresses, and which one comes first. Pure. `start` is any number that selects the first."""

    def __init__(self, addresses: tuple[str, ...], start: int | None = None) -> None:
        self._addresses = addresses
        self._at = random.randrange(1 << 30) if start is None else start  # noqa: S311 — no cryptography

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


async def fetch_nameservers(url: str) -> tuple[str, ...]:
    """Return the addresses that an address server lists; none, with a warning in the log, when it does not answer."""
    try:
        text = await asyncio.to_thread(_get, url)
        return parse_addresses(text)
    except (OSError, ConfigurationError) as error:
        log.warning("The address server %s returned no nameservers: %s.", url, error)
        return ()


def _get(url: str) -> str:
    import http.client  # noqa: PLC0415 — slow to import, and most clients have no address server

    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"'{url}' is not the URL of an address server. Use a URL such as http://names.example:8080/rocketmq/nsaddr."
        )
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_ADDRESS_SERVER_S_MAX)
    try:
        connection.request("GET", urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")))
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise OSError(f"it answered with HTTP status {response.status}")
        lines = response.read(_RESPONSE_BYTES_MAX).decode(errors="replace").split()
        return lines[0] if lines else ""
    except http.client.HTTPException as error:
        raise OSError(f"it did not answer in HTTP: {error!r}") from error
    finally:
        connection.close()

"""Nameservers: which one is asked, and how an address server tells where they are.

All nameservers know the same, so one is asked as long as it answers. Clients begin with different ones, so that none has all.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import random
import urllib.parse

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import parse_addresses

log = logging.getLogger(__name__)

_ANSWER_BYTES_MAX = 64 * 1024
_ADDRESS_SERVER_S_MAX = 3.0


class NameserverChoice:
    """Pure. `start` is any number: it says with whom to begin."""

    def __init__(self, addresses: tuple[str, ...], start: int | None = None) -> None:
        self._addresses = addresses
        self._at = random.randrange(1 << 30) if start is None else start  # noqa: S311 — no secret

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._addresses

    def in_turn(self) -> list[str]:
        """All, the chosen one first."""
        if not self._addresses:
            return []
        at = self._at % len(self._addresses)
        return [*self._addresses[at:], *self._addresses[:at]]

    def failed(self, address: str) -> None:
        """It did not answer: begin with the next from now on."""
        if self._addresses and self._addresses[self._at % len(self._addresses)] == address:
            self._at += 1

    def replaced(self, addresses: tuple[str, ...]) -> bool:
        """The address server told. Whether that is news; an empty list is none."""
        if not addresses or addresses == self._addresses:
            return False
        self._addresses = addresses
        return True


async def ask_address_server(url: str) -> tuple[str, ...]:
    """The addresses that an address server tells; none when it does not answer, which is logged."""
    try:
        text = await asyncio.to_thread(_get, url)
        return parse_addresses(text)
    except (OSError, http.client.HTTPException, ConfigurationError) as error:
        log.warning("The address server %s told no nameservers: %s.", url, error)
        return ()


def _get(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"'{url}' is not an address such as http://names.example:8080/rocketmq/nsaddr.")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_ADDRESS_SERVER_S_MAX)
    try:
        connection.request("GET", urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")))
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise OSError(f"it answered {answer.status}")
        lines = answer.read(_ANSWER_BYTES_MAX).decode(errors="replace").split()
        return lines[0] if lines else ""
    finally:
        connection.close()

"""An address server lists the nameservers over HTTP: `GET http://names:8080/rocketmq/nsaddr` → `10.0.0.1:9876;10.0.0.2:9876`."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Final

from skyrocket.net.errors import NetError

_RESPONSE_BYTES_MAX: Final = 64 * 1024
_TIMEOUT_S: Final = 3.0
_PORT: Final = 8080


def address_server_url(domain: str, group: str = "nsaddr") -> str:
    """Return the URL for a domain in the form of Apache's `rocketmq.namesrv.domain`, host or host:port. A URL stays as it is."""
    if "://" in domain:
        return domain
    host, separator, port = domain.rpartition(":")
    has_port = bool(separator) and port.isdigit() and not host.endswith(":")
    return f"http://{domain if has_port else f'{domain}:{_PORT}'}/rocketmq/{group}"


async def fetch_address_list(url: str) -> str:
    """Return the list of nameservers as the address server gives it. Raise NetError when it does not answer."""
    return await asyncio.to_thread(_get, url)


def _get(url: str) -> str:
    import http.client  # noqa: PLC0415 — slow to import, and most programs have no address server

    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NetError(_explain(url)) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NetError(_explain(url))
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")))
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise NetError(f"The address server {url} answered with HTTP status {response.status}.")
        lines = response.read(_RESPONSE_BYTES_MAX).decode(errors="replace").split()
    except OSError as error:
        raise NetError(f"The address server {url} does not answer: {error.strerror or error}.") from error
    except http.client.HTTPException as error:
        raise NetError(f"The address server {url} did not answer in HTTP: {error!r}.") from error
    finally:
        connection.close()
    return lines[0] if lines else ""


def _explain(url: str) -> str:
    return f"'{url}' is not the URL of an address server. Use a URL such as http://names.example:8080/rocketmq/nsaddr."

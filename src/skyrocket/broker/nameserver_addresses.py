"""Where the broker's nameservers are: namesrvAddr names them, or an address server lists them over HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.address_server import fetch_address_list
from skyrocket.net.errors import NetError
from skyrocket.settings.kinds import ADDRESSES
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)


class NameserverAddresses:
    """Call it for the addresses. When an address server lists others than before, it calls `on_change`."""

    def __init__(self, settings: Callable[[], BrokerSettings], on_change: Callable[[], object]) -> None:
        self._settings = settings
        self._on_change = on_change
        self._listed: list[str] = []
        self._asking: SupervisedTask | None = None
        self._complaint = ""  # the last one: the same is logged once, not at every question

    def __call__(self) -> list[str]:
        return self._settings().nameservers or self._listed

    async def start(self) -> None:
        """Ask the address server, if there is one, and go on asking in the background."""
        if self._settings().address_server_url:
            await self._ask()
            self._asking = SupervisedTask("questions to the address server", self._keep_asking)

    async def close(self) -> None:
        if self._asking is not None:
            await self._asking.close()

    async def _keep_asking(self) -> None:
        while True:
            await asyncio.sleep(self._settings().address_server_interval_ms / 1000)
            if await self._ask():
                self._on_change()

    async def _ask(self) -> bool:
        """Return whether the list has changed. Without a valid answer the last list stays."""
        url = self._settings().address_server_url
        try:
            text = await fetch_address_list(url)
            listed = [address.strip() for address in ADDRESSES.read(text).split(";") if address.strip()]
            if not listed:
                raise NetError(f"The address server {url} lists no nameservers.")
        except (NetError, ValueError) as error:
            complaint = str(error) if isinstance(error, NetError) else f"The address server {url} answers no list of addresses."
            if complaint != self._complaint:
                log.warning("%s The broker keeps the nameservers that it has: %s.", complaint, ", ".join(self()) or "none")
            self._complaint = complaint
            return False
        self._complaint = ""
        if listed == self._listed:
            return False
        self._listed = listed
        log.info("The address server %s lists these nameservers: %s.", url, ", ".join(listed))
        return True

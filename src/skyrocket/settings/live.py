"""The current settings of a running server. A change by a request takes effect once it is on disk.

What is not looked up for each request, the server follows: it looks at it every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Generic, TypeVar

from skyrocket.net.server import Server
from skyrocket.settings.file import save_texts
from skyrocket.settings.server import ServerSettings
from skyrocket.settings.table import Settings

PACKAGE_LOG = logging.getLogger("skyrocket")

S = TypeVar("S", bound=Settings)


class LiveSettings(Generic[S]):
    def __init__(self, settings: S) -> None:
        self._now = settings
        self._changing = asyncio.Lock()

    def __call__(self) -> S:
        return self._now

    def replace(self, settings: S) -> None:
        """Replace the settings without saving them. For example, the server learns its port when it listens."""
        self._now = settings

    async def change(self, texts: Mapping[str, str]) -> None:
        """Apply a request's changes, all or none. Raise SettingsError or OSError when none is applied."""
        async with self._changing:
            changed = self._now.change_by_request(texts)
            if texts:
                shown = changed.to_texts()
                await asyncio.to_thread(save_texts, changed.changes_path, {key: shown[key] for key in texts})
            self._now = changed


class FollowedSettings:
    """What one client may use, which requests are slow, and what is logged."""

    def __init__(self, server: Server, settings: ServerSettings) -> None:
        self._server = server
        self._log_level = settings.log_level  # whoever started the server has set it, or has a log of its own
        server.log_slower_than(settings.slow_request_ms)

    def follow(self, settings: ServerSettings) -> None:
        self._server.set_quota(settings.quota())
        self._server.log_slower_than(settings.slow_request_ms)
        if settings.log_level != self._log_level:
            self._log_level = settings.log_level
            PACKAGE_LOG.setLevel(settings.log_level)
            PACKAGE_LOG.warning("Lines from %s on are logged from now on.", logging.getLevelName(settings.log_level))

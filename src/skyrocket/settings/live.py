"""The current settings of a running server. A change by a request takes effect once it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Generic, TypeVar

from skyrocket.settings.file import save_texts
from skyrocket.settings.table import Settings

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

"""The settings as they are now. A change by a request counts when it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Generic, TypeVar

from skyrocket.settings.file import keep_texts
from skyrocket.settings.table import Settings

S = TypeVar("S", bound=Settings)


class LiveSettings(Generic[S]):
    def __init__(self, settings: S) -> None:
        self._now = settings
        self._changing = asyncio.Lock()

    def __call__(self) -> S:
        return self._now

    def replace(self, settings: S) -> None:
        """From here, and not kept: the port that was chosen, for example."""
        self._now = settings

    async def change(self, texts: Mapping[str, str]) -> None:
        """By a request: all of it, or SettingsError or OSError, and nothing."""
        async with self._changing:
            changed = self._now.changed_from_afar(texts)
            if texts:
                shown = changed.to_texts()
                await asyncio.to_thread(keep_texts, changed.changes_path, {key: shown[key] for key in texts})
            self._now = changed

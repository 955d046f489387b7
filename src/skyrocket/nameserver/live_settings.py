"""The settings as they are now, where they are read from, and where a change at run time is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from skyrocket.durable_file import read_file, replace_file
from skyrocket.nameserver.errors import SettingsError
from skyrocket.nameserver.settings import Settings, with_lines
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.limits import CONFIG_TEXT_BYTES_MAX


def read_settings(path: Path) -> Settings:
    """Of a properties file, which is where changes will be kept. SettingsError when it cannot be used."""
    try:
        content = read_file(path, CONFIG_TEXT_BYTES_MAX)
        if content is None:
            raise SettingsError(f"There is no file {path}.")
        settings = Settings().with_texts(decode_config(content))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from error
    except BodyError as error:
        raise SettingsError(f"{path}: {error}") from error
    return settings.with_texts({"configStorePath": str(path.absolute())})


class LiveSettings:
    def __init__(self, settings: Settings) -> None:
        self.now = settings
        self._changing = asyncio.Lock()

    async def change(self, texts: Mapping[str, str]) -> None:
        """By a request. SettingsError and OSError change nothing."""
        async with self._changing:
            changed = self.now.changed_from_afar(texts)
            if texts:
                await asyncio.to_thread(self._keep, changed, texts)
            self.now = changed

    def _keep(self, changed: Settings, texts: Mapping[str, str]) -> None:
        path = changed.config_store_path
        content = read_file(path, CONFIG_TEXT_BYTES_MAX) or b""
        if len(content) > CONFIG_TEXT_BYTES_MAX:
            raise SettingsError(f"{path} has more than {CONFIG_TEXT_BYTES_MAX} bytes; the change was not made.")
        shown = changed.to_texts()
        lines = with_lines(content.decode(errors="surrogateescape"), [(key, shown[key]) for key in texts])
        replace_file(path, lines.encode(errors="surrogateescape"))

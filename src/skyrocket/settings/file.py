"""A properties file of settings: read it, and save a change without touching the lines that a person wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from skyrocket.durable_file import read_file, replace_file
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.limits import CONFIG_TEXT_BYTES_MAX
from skyrocket.settings.errors import SettingsError


def read_texts(path: Path) -> dict[str, str] | None:
    """Read key -> value. Return None when the file does not exist. Raise SettingsError when it cannot be used."""
    try:
        content = read_file(path, CONFIG_TEXT_BYTES_MAX)
        return None if content is None else decode_config(content)
    except OSError as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error.strerror}.") from error
    except BodyError as error:
        raise SettingsError(f"{path}: {error}") from error


def read_required_texts(path: Path) -> dict[str, str]:
    """Read key -> value from a file that the user named, so it must exist."""
    texts = read_texts(path)
    if texts is None:
        raise SettingsError(f"There is no settings file {path}.")
    return texts


def save_texts(path: Path, texts: Mapping[str, str]) -> None:
    """Save changed settings. They are on disk on return. SettingsError and OSError leave the file as it was."""
    content = read_file(path, CONFIG_TEXT_BYTES_MAX) or b""
    if len(content) > CONFIG_TEXT_BYTES_MAX:
        raise SettingsError(f"{path} has more than {CONFIG_TEXT_BYTES_MAX} bytes; the change was not made.")
    lines = change_lines(content.decode(errors="surrogateescape"), texts.items())
    replace_file(path, lines.encode(errors="surrogateescape"))


def change_lines(text: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the text of a settings file after a change: the changed keys move to its end, and all other lines stay."""
    changed = dict(changes)
    key_of = re.compile(r"[ \t\f]*([^=:\s#!]+)[ \t\f]*[=:]")
    lines = []
    continues = False  # a line that continues in the next stays, and so does its continuation
    for line in text.splitlines():
        found = key_of.match(line)
        continued, continues = continues, line.endswith("\\")
        if continued or continues or found is None or found[1] not in changed:
            lines.append(line)
    if continues:
        lines.append("")
    lines += [f"{key}={value}" for key, value in changed.items()]
    return "\n".join(lines) + "\n"

"""Settings in a properties file: how they are read, and how a change is kept there beside what a person wrote."""

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
    """Key -> value; None when there is no such file. SettingsError when it cannot be used."""
    try:
        content = read_file(path, CONFIG_TEXT_BYTES_MAX)
        return None if content is None else decode_config(content)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from error
    except BodyError as error:
        raise SettingsError(f"{path}: {error}") from error


def given_texts(path: Path) -> dict[str, str]:
    """Of a file that somebody named, so it has to be there."""
    texts = read_texts(path)
    if texts is None:
        raise SettingsError(f"There is no file {path}.")
    return texts


def keep_texts(path: Path, texts: Mapping[str, str]) -> None:
    """Returns when they are on disk. SettingsError and OSError leave the file as it was."""
    content = read_file(path, CONFIG_TEXT_BYTES_MAX) or b""
    if len(content) > CONFIG_TEXT_BYTES_MAX:
        raise SettingsError(f"{path} has more than {CONFIG_TEXT_BYTES_MAX} bytes; the change was not made.")
    lines = with_lines(content.decode(errors="surrogateescape"), texts.items())
    replace_file(path, lines.encode(errors="surrogateescape"))


def with_lines(text: str, changes: Iterable[tuple[str, str]]) -> str:
    """A file of settings after a change: what a person wrote stays, the changed keys stand at the end, where they count."""
    changed = dict(changes)
    key_of = re.compile(r"[ \t\f]*([^=:\s#!]+)[ \t\f]*[=:]")
    lines = []
    continues = False  # a line that goes on in the next is left alone, and so is what it goes on in
    for line in text.splitlines():
        found = key_of.match(line)
        continued, continues = continues, line.endswith("\\")
        if continued or continues or found is None or found[1] not in changed:
            lines.append(line)
    if continues:
        lines.append("")
    lines += [f"{key}={value}" for key, value in changed.items()]
    return "\n".join(lines) + "\n"

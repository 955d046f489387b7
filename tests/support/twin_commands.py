"""The table of docs/command-line.md that has the twins of mqadmin's commands, and those that have none."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_NONE = "(none)"


def read_twins() -> list[tuple[list[str], list[str]]]:
    """Return each row: commands of mqadmin, and ours. A short name takes the first word of the one before it."""
    rows = []
    for theirs, ours in _ROW.findall(_section())[1:]:
        commands: list[str] = []
        for text in ours.split(", "):
            is_short = " " not in text and commands and " " in commands[0]
            commands.append(f"{commands[0].split()[0]} {text}" if is_short else text)
        names = [] if theirs == _NONE else [text.split()[0] for text in theirs.split(", ")]
        rows.append((names, commands))
    assert len(rows) > 20
    return rows


def unmatched() -> set[str]:
    """Return the commands of mqadmin that have no twin."""
    _, _, text = _section().partition("Without a twin, use mqadmin itself:")
    names = re.sub(r"\(.*?\)", "", text, flags=re.DOTALL)
    return set(re.findall(r"\w+", names))


def _section() -> str:
    return DOCUMENT.read_text().partition("## For users of mqadmin")[2]

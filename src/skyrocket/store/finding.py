"""Something that is wrong with a store directory."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    path: str  # of the file, within the store
    offset: int  # in the file
    problem: str  # one sentence

    def __str__(self) -> str:
        return f"{self.path} at {self.offset}: {self.problem}"

"""What every target of the job `table` does, and what it keeps about a table.

A target commits a batch as a whole: the rows, the changes that wait, the rejected messages and the offsets that the batch
reached. Where it cannot do so in one transaction, it writes the waiting and rejected ones first, which may be repeated, then rows
and offsets in one commit, and removes what no longer waits last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.last_messages import LastMessage
from skyrocket.pipelines.errors import ArgumentError, TargetError
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.pipelines.table.change_spec import ChangeSpec
from skyrocket.pipelines.table.fold import Held

VERSION: Final = 1  # of the description


class TableDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided when a table was made. It is kept in the target, and a later run must agree with it."""

    id: str
    topic: str
    spec: ChangeSpec
    mode: str
    first_version: int
    columns: JsonColumns
    version: int = VERSION
    last_messages: list[LastMessage] = []  # of each queue that was read; they are no option: each batch replaces them


class WaitingKey(NamedTuple):
    """A key whose changes wait for a version that is missing."""

    key: str
    has: int | None  # the version that the table has; None: no change of the key has been applied
    next: int  # the lowest version that waits
    changes: int


class WaitingChange(NamedTuple):
    key: str
    version: int
    digest: str


@dataclass(frozen=True)
class TableBatch:
    """What one commit writes. The tables have the schemas of `changes.table_schema` and `changes.reject_schema`."""

    before: Mapping[Queue, int]  # where the table had arrived when the batch was planned; nothing for a new queue
    stops: Mapping[Queue, int]
    rows: Any
    waiting: Any
    settled: Sequence[WaitingChange]
    rejects: Any
    description: TableDescription  # as it is with this batch


class TableTarget(Protocol):
    name: str  # as messages show it, without passwords
    rejects: str  # where rejected messages are, for people
    refuses_nul: bool

    def lock(self) -> None:
        """Keep other jobs from writing until this target is closed. Raise TargetError if another one writes."""

    def load(self) -> TableDescription | None:
        """Return the description of an existing table; None if there is none. Raise TargetError if it is something else."""

    def create(self, description: TableDescription) -> None: ...

    def offsets(self, queues: Sequence[Queue]) -> dict[Queue, int]:
        """Return where the table has arrived in these queues; nothing for a queue that it does not know."""

    def read_held(self, keys: Sequence[str]) -> dict[str, Held]: ...

    def read_waiting(self, keys: Sequence[str]) -> Any:
        """Return the changes of these keys that wait."""

    def waiting_count(self) -> int: ...

    def waiting_keys(self, most: int) -> list[WaitingKey]: ...

    def commit(self, batch: TableBatch) -> None: ...

    def close(self) -> None: ...


def decode_description(found: str | bytes, name: str) -> TableDescription:
    try:
        return msgspec.json.decode(found, type=TableDescription)
    except msgspec.DecodeError as error:
        raise TargetError(f"{name} has a description that this program does not know: {error}") from error


def check_description(found: TableDescription, wanted: TableDescription, name: str) -> None:
    """Raise ArgumentError if an existing table was made by other options than those of this run."""
    if found.version != VERSION:
        raise ArgumentError(f"{name} is a table of version {found.version}. This program knows version {VERSION}.")
    options = {
        "of topic": (found.topic, wanted.topic),
        "with --key": (" ".join(found.spec.key), " ".join(wanted.spec.key)),
        "with --version": (found.spec.version, wanted.spec.version),
        "with --delete-when": (found.spec.delete_when, wanted.spec.delete_when),
        "with --mode": (found.mode, wanted.mode),
        "with --first-version": (found.first_version, wanted.first_version),
    }
    for option, (before, now) in options.items():
        if before != now:
            raise ArgumentError(f"{name} was made {option} {before}, not {now}. Use the same options, or another table.")
    if wanted.columns.columns and wanted.columns != found.columns:
        raise ArgumentError(f"{name} was made with other columns than --schema has. Leave --schema out, or use another table.")


def waiting_keys(keys: Sequence[str], versions: Sequence[int], held: Mapping[str, Held], most: int) -> list[WaitingKey]:
    """Group waiting changes by key, for targets that cannot do so themselves. Pure."""
    lowest: dict[str, int] = {}
    counts: dict[str, int] = {}
    for key, version in zip(keys, versions, strict=True):
        lowest[key] = min(version, lowest.get(key, version))
        counts[key] = counts.get(key, 0) + 1
    return [
        WaitingKey(key, held[key].version if key in held else None, lowest[key], counts[key]) for key in sorted(lowest)[:most]
    ]

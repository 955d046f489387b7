"""How far a replay has come in each queue: one small file for each queue of the source, and one that says which replay it is.

    folder/replay.json                     the replay's id, and what it replays
    folder/orders+broker-a+3.json          the next offset to send, and from where on to look in the target after a failure
    folder/orders+broker-a+3.lock          held by the task that sends this queue

A file is replaced as a whole, so a kill leaves the old content or the new.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.durable_file import make_directory, read_file, replace_file
from skyrocket.pipelines.errors import ReplayError
from skyrocket.pipelines.file_lock import take_lock

_BYTES_MAX: Final = 1 << 20
_DESCRIPTION: Final = "replay.json"
_LOCK_S: Final = 60.0  # a killed driver's tasks end within seconds


class ReplayDescription(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    what: str  # source, target and selection, to recognise another replay


class ReplayProgress(msgspec.Struct, frozen=True, kw_only=True):
    next_offset: int  # of the source; messages before it have arrived
    target: Queue
    look_from: int  # offset in the target queue: messages of this replay that are not counted yet lie behind it
    sent: int = 0


def open_replay(folder: Path, what: str) -> str:
    """Return the id of the replay in this folder; begin a new one if there is none. Raise ReplayError for another replay's."""
    path = folder / _DESCRIPTION
    description = _read_description(path)
    if description is None:
        description = ReplayDescription(id=uuid.uuid4().hex[:16], what=what)
        replace_file(path, msgspec.json.encode(description))
        return description.id
    if description.what != what:
        raise ReplayError(
            f"{folder} has the progress of another replay ({description.what}). Use another folder, or that replay's arguments."
        )
    return description.id


def read_replay(folder: Path) -> str | None:
    """Return the id of the replay in this folder; None if there is none."""
    description = _read_description(folder / _DESCRIPTION)
    return None if description is None else description.id


def _read_description(path: Path) -> ReplayDescription | None:
    found = read_file(path, _BYTES_MAX)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found, type=ReplayDescription)
    except msgspec.DecodeError as error:
        raise ReplayError(f"{path} does not describe a replay: {error}") from error


class ProgressFile:
    def __init__(self, folder: Path, source: Queue) -> None:
        name = f"{quote(source.topic, safe='')}+{quote(source.broker_name, safe='')}+{source.queue_id}"
        self._path, self._lock = folder / f"{name}.json", folder / f"{name}.lock"

    def read(self) -> ReplayProgress | None:
        found = read_file(self._path, _BYTES_MAX)
        if found is None:
            return None
        try:
            return msgspec.json.decode(found, type=ReplayProgress)
        except msgspec.DecodeError as error:
            raise ReplayError(f"{self._path} is not the progress of a replay: {error}") from error

    def write(self, progress: ReplayProgress) -> None:
        replace_file(self._path, msgspec.json.encode(progress))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the queue's lock. Wait for a task of a killed driver that still ends; raise ReplayError if it does not."""
        make_directory(self._lock.parent)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not take_lock(descriptor, _LOCK_S):
                raise ReplayError(f"Another task holds {self._lock}: the replay runs twice. End one of them.")
            yield
        finally:
            os.close(descriptor)


def read_sent(folder: Path) -> int:
    """Return how many messages all queues have sent, for a progress bar."""
    return sum(progress.sent for progress in _read_all(folder))


def read_targets(folder: Path) -> list[str]:
    """Return the topics to which the replay in this folder has sent."""
    return sorted({progress.target.topic for progress in _read_all(folder)})


def _read_all(folder: Path) -> Iterator[ReplayProgress]:
    for path in folder.glob("*+*.json"):
        found = read_file(path, _BYTES_MAX)
        if found is not None:
            yield msgspec.json.decode(found, type=ReplayProgress)

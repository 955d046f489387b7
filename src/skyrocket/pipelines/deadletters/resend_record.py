"""The record of resent letters: a file of JSON lines that says who resent what and when, and prevents a second time.

    {"event":"cluster","nameservers":["ns-1:9876", …],"namespace":""}                              whose letters these are
    {"event":"begin","run":"6f2c…","at":"2026-11-18T10:20:00+00:00","by":"ann@ops-1","letters":["broker-a:5120:7F00…", …],
     "ends":{"orders":{"broker-a:0":17, …}}}                                                      before a chunk is sent
    {"event":"sent","run":"6f2c…","letter":"broker-a:5120:7F00…","topic":"orders","id":"7F00…","queue":"broker-a:0","offset":17}
    {"event":"failed","run":"6f2c…","letter":"broker-a:5632:7F01…","reason":"…"}                 no broker has it

A letter that began and has neither `sent` nor `failed` is *open*: the process died, or a broker did not answer. `ends` tells
where each queue of its target ended before, so a later run finds it there by its property, or knows that it was not stored. That
holds for one cluster only, so the record of another one is refused. Lines reach the disk before the job goes on. A last line that
is cut off is ignored.

Records of earlier versions name no cluster, and letters by their places alone: "broker-a:5120". The first cluster that uses such
a record becomes its cluster, and a letter at such a place counts as that one unless it died long after the run that resent it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from skyrocket.client.options import ClientOptions
from skyrocket.durable_file import sync_directory
from skyrocket.pipelines.deadletters.letters import DeadLetter
from skyrocket.pipelines.errors import ArgumentError, PipelineError

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
_EVENT_START: Final = b'{"event"'
_CLOCKS_MS: Final = 24 * 3600 * 1000  # at most how long a run takes, and how far a broker's clock is ahead of the job's

Ends = Mapping[str, Mapping[str, int]]  # topic -> "broker:queue" -> offset


@dataclass(frozen=True, slots=True)
class LetterCluster:
    """The cluster whose letters a record has. Two are the same one if they have a nameserver in common."""

    nameservers: frozenset[str]  # as the user gave them; or the address server's URL
    namespace: str = ""

    @classmethod
    def of(cls, options: ClientOptions) -> Self:
        return cls(frozenset(options.nameservers or (options.address_server,)), options.namespace)

    def is_same(self, other: LetterCluster) -> bool:
        return self.namespace == other.namespace and not self.nameservers.isdisjoint(other.nameservers)

    def __str__(self) -> str:
        where = ";".join(sorted(self.nameservers))
        return f"{where}, namespace {self.namespace}" if self.namespace else where


@dataclass(slots=True)
class ResendState:
    """What a record says. Pure: `apply` takes one event after another."""

    sent: dict[str, str] = field(default_factory=dict)  # letter -> id of the message that it became
    open: dict[str, Ends] = field(default_factory=dict)  # letter -> ends of the queues before it was sent
    cluster: LetterCluster | None = None  # None: an earlier version wrote the record
    begun_ms: dict[str, int] = field(default_factory=dict)  # of letters that are named by their places alone: when a run began

    def is_sent(self, letter: DeadLetter) -> bool:
        """Whether a run has resent this letter."""
        return letter.letter_id in self.sent or self._has_place(letter, self.sent)

    def is_open(self, letter: DeadLetter) -> bool:
        """Whether a run began with this letter, and nobody knows whether it was stored."""
        return letter.letter_id in self.open or self._has_place(letter, self.open)

    def _has_place(self, letter: DeadLetter, letters: Container[str]) -> bool:
        return letter.place in letters and letter.died_ms < self.begun_ms.get(letter.place, letter.died_ms) + _CLOCKS_MS

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take the next event of the record. Events of other kinds are ignored."""
        kind = event.get("event")
        if kind == "begin":
            for letter in event["letters"]:
                if letter.count(":") == 1 and "at" in event:
                    self.begun_ms[letter] = int(datetime.fromisoformat(event["at"]).timestamp() * 1000)
                if letter not in self.sent:
                    self.open[letter] = event["ends"]
        elif kind == "cluster":
            self.cluster = LetterCluster(frozenset(event["nameservers"]), event["namespace"])
        elif kind == "sent":
            self.open.pop(event["letter"], None)
            self.sent[event["letter"]] = event.get("id", "")
        elif kind == "failed":
            self.open.pop(event["letter"], None)


class ResendRecord:
    """The open file. One job at a time has it; a second one is refused."""

    def __init__(self, path: Path, cluster: LetterCluster) -> None:
        """`cluster` is that of the letters. The record of another cluster is refused."""
        self._path, self._cluster = path, cluster
        self._file: IO[bytes] | None = None
        self.state = ResendState()

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("a+b")
        except OSError as error:
            raise ArgumentError(f"The record {self._path} cannot be opened: {error.strerror}.") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise PipelineError(f"Another job resends with the record {self._path} now. Wait until it has ended.") from error
        sync_directory(self._path.parent)  # a new file survives a power cut
        try:
            self._load(self._file)
            self._check_cluster()
        except ArgumentError:
            self._file.close()
            raise
        return self

    def _check_cluster(self) -> None:
        recorded = self.state.cluster
        if recorded is None:
            servers = sorted(self._cluster.nameservers)
            self.write([{"event": "cluster", "nameservers": servers, "namespace": self._cluster.namespace}])
        elif not recorded.is_same(self._cluster):
            raise ArgumentError(
                f"The record {self._path} has letters of the cluster at {recorded}, not of {self._cluster}. "
                "Give another file with --record."
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def _load(self, file: IO[bytes]) -> None:
        file.seek(0)
        whole = 0
        number = 0
        while line := file.readline(LINE_BYTES_MAX):
            number += 1
            if not line.endswith(b"\n") and _is_begun_event(line):
                break  # cut off by a crash: the event did not happen
            try:
                event = json.loads(line)
                self.state.apply(event)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ArgumentError(
                    f"Line {number} of {self._path} is not an event of a resend. Give another file with --record."
                ) from error
            whole = file.tell()
        file.truncate(whole)
        file.seek(0, os.SEEK_END)

    def write(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Append events, and return when they are on disk."""
        assert self._file is not None
        self._file.write(b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events))
        self._file.flush()
        os.fsync(self._file.fileno())
        for event in events:
            self.state.apply(event)


def _is_begun_event(line: bytes) -> bool:
    """Whether a line without an end can be the beginning of an event. Other files are not touched."""
    return line.startswith(_EVENT_START) or _EVENT_START.startswith(line)

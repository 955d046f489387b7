"""The record of a drain: what it archives, for which group, and how far it has come. One JSON file, `_skyrocket/drain.json`.

    planned ──► archived ──► moved           each step is written when it is done and durable, so a killed run repeats one step

The ranges are fixed when the record is first written: a run that is killed and started again drains the same offsets, however
long the topic has become. The record says all that a replay and a proof need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.durable_file import read_file, replace_file
from skyrocket.pipelines.archive.last_messages import LastMessage
from skyrocket.pipelines.archive.layout import OWN_FOLDER
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.drain.plan import Conditions
from skyrocket.pipelines.errors import ArgumentError, DrainError

RECORD: Final = f"{OWN_FOLDER}/drain.json"
LOCK: Final = f"{OWN_FOLDER}/drain.lock"
RESENT: Final = f"{OWN_FOLDER}/resent"  # progress of the resend to the retry topic
REPLAYED: Final = f"{OWN_FOLDER}/replayed"  # progress of the replay that brings the messages back
VERSION: Final = 1
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024

KEPT_OPTIONS: Final = ("nameserver", "addressServer", "namespace", "tls")  # of a cluster; credentials are not kept

DrainState = Literal["planned", "archived", "moved"]


class DrainedQueue(msgspec.Struct, kw_only=True):
    topic: str
    broker: str
    queue_id: int
    start: int  # the first drained offset
    stop: int  # one past the last
    archived: int = 0  # rows that were counted in the files
    selected: int = 0  # of them: come back with a replay
    resent: int = 0  # of them: are in the group's retry topic
    last_id: str = ""  # of the message before `stop`; "": an older program planned it, or nothing waits
    passed_by: int | None = None  # the group's offset when it was moved; between `start` and it, members consumed meanwhile

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker, self.queue_id)

    @property
    def bounds(self) -> QueueBounds:
        return QueueBounds(self.start, self.stop)


class DrainRecord(msgspec.Struct, kw_only=True):
    id: str
    group: str
    cluster: dict[str, str]  # how to find it, without secrets: nameserver or addressServer, namespace, tls
    topics: list[str]
    selected: str  # conditions of Spark SQL: see plan.Conditions
    subscribed: str
    by: str
    began: str  # ISO 8601
    state: DrainState = "planned"
    moved: str = ""  # ISO 8601
    queues: list[DrainedQueue] = []
    version: int = VERSION

    @property
    def conditions(self) -> Conditions:
        return Conditions(self.selected, self.subscribed)

    @property
    def cluster_name(self) -> str:
        return self.cluster.get("nameserver") or self.cluster.get("addressServer", "")

    @property
    def ranges(self) -> dict[Queue, QueueBounds]:
        return {one.queue: one.bounds for one in self.queues}

    @property
    def last_messages(self) -> list[LastMessage]:
        return [
            LastMessage(topic=one.topic, broker=one.broker, queue_id=one.queue_id, offset=one.stop - 1, id=one.last_id)
            for one in self.queues
            if one.last_id
        ]

    @property
    def waiting(self) -> int:
        return sum(one.stop - one.start for one in self.queues)

    def total(self, what: Literal["archived", "selected", "resent"]) -> int:
        return sum(getattr(one, what) for one in self.queues)


def read_record(root: Path) -> DrainRecord | None:
    """Read the record of the drain in this archive. Return None if there is none."""
    path = root / RECORD
    found = read_file(path, RECORD_BYTES_MAX)
    if found is None:
        return None
    try:
        record = msgspec.json.decode(found, type=DrainRecord)
    except msgspec.DecodeError as error:
        raise DrainError(f"{path} is not the record of a drain: {error}") from error
    if record.version != VERSION:
        raise DrainError(f"{path} has version {record.version}. This program knows version {VERSION}.")
    return record


def require_record(root: Path) -> DrainRecord:
    record = read_record(root)
    if record is None:
        raise ArgumentError(
            f"{root} is not the archive of a drain. Make one with: skyrocket pipeline drain GROUP TOPIC --to {root}"
        )
    return record


def write_record(root: Path, record: DrainRecord) -> None:
    """Replace the record. It is on disk on return."""
    replace_file(root / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1))


def check_same(root: Path, record: DrainRecord, group: str, topics: list[str], selected: str) -> None:
    """Raise ArgumentError if the folder has the drain of other arguments."""
    if (record.group, record.topics, record.selected) != (group, topics, selected):
        raise ArgumentError(
            f"{root} has the drain of group '{record.group}' from {', '.join(record.topics)}, selecting {record.selected}. "
            "Use that drain's arguments to continue it, or a new folder."
        )

"""Histories of changes for tests of the job `table`: a feed without a broker, the reference fold, and random histories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.json_columns.json_schema import JsonColumn, JsonColumns
from skyrocket.pipelines.table.change_spec import ChangeSpec
from skyrocket.pipelines.table.changes import ChangeDecoder, DecoderSettings, change_schema
from skyrocket.pipelines.table.fold import EXPECTED_VERSION
from skyrocket.pipelines.table.job import TableOptions
from skyrocket.spark.source.partitions import QueuePartition

TOPIC = "changes"
COLUMNS = JsonColumns(
    [JsonColumn("id", "text"), JsonColumn("v", "bigint"), JsonColumn("name", "text"), JsonColumn("size", "double")]
)
SPEC = ChangeSpec(["id"], "v", "op=delete")


def options(mode: str = "last-writer", **given: Any) -> TableOptions:
    return TableOptions(**{"topic": TOPIC, "spec": SPEC, "mode": mode, "columns": COLUMNS, **given})


def body(key: str, version: int, **fields: Any) -> bytes:
    return json.dumps({"id": key, "v": version, **fields}).encode()


def deletion(key: str, version: int) -> bytes:
    return body(key, version, op="delete")


@dataclass
class ListFeed:
    """A topic in memory: a list of bodies for each queue."""

    queues: list[list[bytes]]
    tasks: int = 1
    limits: list[int] | None = None  # where each queue ends now
    firsts: list[int] | None = None  # where each queue begins now
    prefix: str = "id"  # of the messages' ids
    properties: dict[bytes, dict[str, str]] = field(default_factory=dict)

    def bounds(self) -> dict[Queue, QueueBounds]:
        lasts = self.limits or [len(queue) for queue in self.queues]
        firsts = self.firsts or [0] * len(lasts)
        bounds = enumerate(zip(firsts, lasts, strict=True))
        return {Queue(TOPIC, "broker-a", number): QueueBounds(first, last) for number, (first, last) in bounds}

    def messages(self, parts: Sequence[QueuePartition]) -> Iterator[Any]:
        for part in parts:
            offsets = range(part.start, part.stop)
            bodies = [self.queues[part.queue.queue_id][offset] for offset in offsets]
            yield pa.RecordBatch.from_pydict(
                {
                    "broker": [part.queue.broker_name] * len(bodies),
                    "queueId": pa.array([part.queue.queue_id] * len(bodies), pa.int32()),
                    "queueOffset": pa.array(offsets, pa.int64()),
                    "msgId": [f"{self.prefix}-{part.queue.queue_id}-{offset}" for offset in offsets],
                    "keys": pa.array([[]] * len(bodies), pa.list_(pa.string())),
                    "properties": pa.array(
                        [list(self.properties.get(each, {}).items()) for each in bodies], pa.map_(pa.string(), pa.string())
                    ),
                    "body": pa.array(bodies, pa.binary()),
                }
            )

    def changes(self, parts: Sequence[QueuePartition], settings: DecoderSettings) -> Any:
        decoder = ChangeDecoder(settings)
        batches = [decoder.decode(batch) for batch in self.messages(parts)]
        return pa.Table.from_batches(batches, change_schema(settings.columns))


@dataclass(frozen=True, order=True)
class Change:
    """A change as the reference fold sees it. With `name` None, a deletion."""

    key: str
    version: int
    name: str | None

    def encode(self) -> bytes:
        return deletion(self.key, self.version) if self.name is None else body(self.key, self.version, name=self.name)


def reference_fold(history: Sequence[Change], mode: str, digest_of: Any) -> dict[str, tuple[int, str | None]]:
    """What a table must have: version and name of each key, by the plainest code that says it. Deleted keys have no name."""
    found: dict[str, tuple[int, str | None]] = {}
    for key in {change.key for change in history}:
        changes = {change for change in history if change.key == key}
        versions = {change.version for change in changes}
        if mode == EXPECTED_VERSION:
            last = 0
            while last + 1 in versions:
                last += 1
            if last == 0:
                continue
        else:
            last = max(versions)
        winner = max((change for change in changes if change.version == last), key=digest_of)
        found[key] = (last, winner.name)
    return found


def reference_waiting(history: Sequence[Change]) -> set[tuple[str, int]]:
    """Which versions must wait in the mode expected-version."""
    state = reference_fold(history, EXPECTED_VERSION, lambda change: change.name or "~")
    return {(change.key, change.version) for change in history if change.version > state.get(change.key, (0, None))[0]}


def digest(change: Change) -> str:
    """The digest that the decoder gives to a change."""
    settings = DecoderSettings(SPEC, COLUMNS)
    feed = ListFeed([[change.encode()]])
    part = QueuePartition(Queue(TOPIC, "broker-a", 0), 0, 1)
    return str(feed.changes([part], settings).column("_digest")[0].as_py())


# Few keys and versions, so that repeats, gaps and conflicts are common.
a_change = st.builds(
    Change, st.sampled_from(["a", "b", "c"]), st.integers(1, 5), st.one_of(st.none(), st.sampled_from(["x", "y", "z"]))
)
histories = st.lists(a_change, max_size=25)

"""The work of one Spark task of a replay: sends the messages of its queues, one queue after another, with a row for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.namespaces import with_namespace
from skyrocket.client.sync import Producer
from skyrocket.pipelines.errors import ReplayError
from skyrocket.pipelines.replay.origin import REPLAY, ReplayedFrom, parse_place, replayed_properties
from skyrocket.pipelines.replay.pace import Pace
from skyrocket.pipelines.replay.progress_file import ProgressFile
from skyrocket.pipelines.replay.queue_replay import OffsetMessage, QueueReplay
from skyrocket.protocol.message.properties import RETRY_TOPIC, SHARDING_KEY
from skyrocket.protocol.system_names import RETRY_PREFIX
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition

GROUP: Final = "SKYROCKET_PIPELINE_REPLAY"
SEND_MS: Final = 10_000
COLUMNS: Final = (
    *("topic", "broker", "queueId", "queueOffset", "storeTimestamp", "bornTimestamp", "msgId", "tags", "keys", "properties"),
    "body",
)
SENT_ROW: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queueId", IntegerType()),
        StructField("sentEver", LongType()),  # by all tasks and runs
    ]
)
_SENT_ARROW: Final = pa.schema(
    [("topic", pa.string()), ("broker", pa.string()), ("queueId", pa.int32()), ("sentEver", pa.int64())]
)


class SourceMessage(NamedTuple):
    """A row of the source."""

    queue: Queue
    offset: int
    store_ms: int
    born_ms: int
    message_id: str
    tag: str
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes


class ClusterTarget:
    """The target cluster, for one task."""

    def __init__(self, cluster: Mapping[str, str], topics: Sequence[str], replay_id: str) -> None:
        columns = {"columns": "queueOffset,properties", "failOnDataLoss": "false"}
        self._options = source_options({**cluster, "subscribe": ",".join(topics), **columns}, "batch")
        self._client = ClusterClient(self._options.cluster)
        self._replay_id = replay_id
        self._producer = Producer(options=self._options.cluster.client_options(), group=GROUP, retries=0, timeout_ms=SEND_MS)

    def close(self) -> None:
        self._producer.close()

    @property
    def retry_s(self) -> float:
        return self._options.cluster.retry_ms / 1000

    def send(self, messages: Sequence[Message], queue: Queue) -> Receipt:
        if len(messages) == 1:
            return self._producer.send(messages[0], queue=queue)
        return self._producer.send_batch(messages, queue=queue)

    def end_offset(self, queue: Queue) -> int:
        return self._client.last_offsets([queue])[queue]

    def replayed_offsets(self, queue: Queue, start: int, source: Queue) -> Iterator[int]:
        stop = self.end_offset(queue)
        start = max(start, self._client.first_offsets([queue])[queue])
        if start >= stop:
            return
        for batch in RangeReader(self._options, QueuePartition(queue, start, stop)).batches():
            for pairs in batch.column("properties").to_pylist():
                place = parse_place(dict(pairs))
                if place is not None and place.replay_id == self._replay_id and place.queue == source:
                    yield place.offset


@dataclass(frozen=True)
class ReplayTask:
    """What a task needs. Plain values only, since Spark pickles it."""

    replay_id: str
    folder: str  # of the progress files
    cluster: Mapping[str, str]  # of the target
    queues: Mapping[Queue, Queue]  # from source to target
    rates: Mapping[Queue, float] | None  # messages a second of the task that sends a queue

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Send the rows, which are sorted by queue and offset. Yield a batch with one row for each queue."""
        pace: Pace | None = None  # one for all queues of the task
        with self._open_target() as target:
            for queue, messages in groupby(source_messages(batches), key=lambda message: message.queue):
                if self.rates is not None and pace is None:
                    pace = Pace(self.rates[queue])
                yield self._replay_queue(queue, messages, target, pace)

    @contextmanager
    def _open_target(self) -> Iterator[ClusterTarget]:
        target = ClusterTarget(self.cluster, sorted({queue.topic for queue in self.queues.values()}), self.replay_id)
        try:
            yield target
        finally:
            target.close()

    def _replay_queue(self, source: Queue, messages: Iterator[SourceMessage], target: ClusterTarget, pace: Pace | None) -> Any:
        file = ProgressFile(Path(self.folder), source)
        to, namespace = self.queues[source], self.cluster.get("namespace", "")
        with file.locked():
            replay = QueueReplay(source, to, target, file, pace, retry_s=target.retry_s)
            replay.open()
            for message in messages:
                if message.properties.get(REPLAY) == self.replay_id:
                    continue  # the source is the target, too: this is a message of an earlier run
                replay.add(OffsetMessage(message.offset, build_message(message, to.topic, self.replay_id, namespace)))
            replay.close()
        row = (source.topic, source.broker_name, source.queue_id, replay.sent_ever)
        return pa.RecordBatch.from_arrays(
            [pa.array([value], kind) for value, kind in zip(row, _SENT_ARROW.types, strict=True)], schema=_SENT_ARROW
        )


def source_messages(batches: Iterator[Any]) -> Iterator[SourceMessage]:
    """Turn Arrow batches with the columns `COLUMNS` into messages."""
    for batch in batches:
        columns = {name: batch.column(name) for name in COLUMNS}
        for name in ("storeTimestamp", "bornTimestamp"):
            columns[name] = columns[name].cast(pa.int64())  # microseconds
        for row in zip(*(columns[name].to_pylist() for name in COLUMNS), strict=True):
            topic, broker, queue_id, offset, store_us, born_us, message_id, tag, keys, properties, body = row
            yield SourceMessage(
                Queue(topic, broker, queue_id),
                offset,
                store_us // 1000,
                born_us // 1000,
                message_id,
                tag or "",
                tuple(keys or ()),
                dict(properties or ()),
                bytes(body),
            )


def build_message(one: SourceMessage, topic: str, replay_id: str, namespace: str = "") -> Message:
    """Return the message to send. One for a retry topic names its own topic, under which consumers of the group see it."""
    place = ReplayedFrom(replay_id, one.queue, one.offset)
    properties = replayed_properties(one.properties, place, message_id=one.message_id, born_ms=one.born_ms, store_ms=one.store_ms)
    try:
        message = Message(
            topic, one.body, tag=one.tag, keys=one.keys, properties=properties, sharding_key=one.properties.get(SHARDING_KEY, "")
        )
    except InvalidMessageError as error:
        raise ReplayError(f"The message at offset {one.offset} of {one.queue} cannot be sent: {error}") from error
    if topic.startswith(RETRY_PREFIX):
        own_topic = one.properties.get(RETRY_TOPIC) or with_namespace(namespace, one.queue.topic)
        message.properties = {**properties, RETRY_TOPIC: own_topic}  # reserved: the constructor refuses it of applications
    return message

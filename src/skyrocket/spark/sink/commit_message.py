"""What a task tells the driver when its rows are sent, or staged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from skyrocket.spark.sink.handles import Handles, PackedHandles, unpacked


@dataclass
class SinkCommit(WriterCommitMessage):
    query_id: str  # Spark tells it to tasks only, so they tell the driver's commit
    batch_id: int
    rows: int
    staged: list[PackedHandles] = field(default_factory=list)


def staged_by(messages: Iterable[WriterCommitMessage | None]) -> list[Handles]:
    """By all tasks; one that failed has no message."""
    return [unpacked(packed) for message in messages if isinstance(message, SinkCommit) for packed in message.staged]

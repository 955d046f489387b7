"""Reads dead letters from a cluster, with the reader of the Spark source in this process: no Spark has to start for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skyrocket.client import Admin
from skyrocket.pipelines.deadletters.letters import COLUMNS, DeadLetter, letters_of
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, dead_letter_topic
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.source.batch_reader import BatchReader


async def find_letter_topics(admin: Admin, groups: Sequence[str] = ()) -> list[str]:
    """Return the dead-letter topics of these groups, or of all. A group without one has no dead letters.

    Raises ArgumentError for a group that no broker knows.
    """
    existing = [name for name in await admin.topics.names(internal=True) if name.startswith(DEAD_LETTER_PREFIX)]
    if not groups:
        return existing
    wanted = [dead_letter_topic(group.removeprefix(DEAD_LETTER_PREFIX)) for group in dict.fromkeys(groups)]
    known = set(await admin.groups.names(internal=True))
    for topic in wanted:
        group = topic.removeprefix(DEAD_LETTER_PREFIX)
        if topic not in existing and group not in known:
            raise ArgumentError(f"Group '{group}' does not exist. List the groups with: skyrocket group list")
    return [topic for topic in wanted if topic in existing]


def read_letters(
    cluster: Mapping[str, str], topics: Sequence[str], selection: LetterSelection | None = None
) -> Iterator[DeadLetter]:
    """Read the letters that the topics have now, queue by queue, one batch in memory at a time."""
    if not topics:
        return
    chosen = selection or LetterSelection()
    options = {**cluster, "subscribe": ",".join(topics), "failOnDataLoss": "false"}
    if chosen.since_ms is not None:
        options |= {"startingTimestamp": str(chosen.since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    reader = BatchReader(options, spark_schema(COLUMNS))
    for part in reader.partitions():
        for batch in reader.read(part):
            for letter in letters_of(batch, cluster.get("namespace", "")):
                if chosen.chooses(letter):
                    yield letter

"""Dead letters over the admin client alone: no Spark is imported. The command line uses it, and the job for its resend."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from skyrocket.client import Admin, Producer, Received
from skyrocket.client.queues import Queue
from skyrocket.client.session.namespaces import without_namespace
from skyrocket.pipelines.deadletters.letters import DeadLetter, origin_of
from skyrocket.pipelines.deadletters.resend import Resender, ResendResult
from skyrocket.pipelines.deadletters.resend_record import LetterCluster, ResendRecord
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.progress import JobProgress, OnProgress
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, dead_letter_topic

PRODUCER_GROUP: Final = "skyrocket-deadletters"


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


def letter_of(message: Received, topic: str, namespace: str = "") -> DeadLetter:
    """Make a letter of a message that was read from a dead-letter topic."""
    return DeadLetter(
        topic=topic,
        broker_name=message.broker_name,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        log_offset=message.record.physical_offset,
        origin_topic=without_namespace(namespace, origin_of(message.properties)),
        died_ms=message.stored_ms,
        born_ms=message.born_ms,
        message_id=message.message_id,
        tag=message.tag,
        keys=tuple(message.keys),
        retries=message.reconsume_times,
        properties=message.properties,
        body=message.body,
    )


async def find_letter_ends(admin: Admin, topics: Sequence[str]) -> dict[Queue, int]:
    """Return where the queues of dead-letter topics end now. What lies before is what a person was asked about."""
    ends: dict[Queue, int] = {}
    for topic in topics:
        ends |= await admin.offsets.at(topic, "last")
    return ends


async def stream_letters(
    admin: Admin, topics: Sequence[str], selection: LetterSelection, namespace: str = "", ends: Mapping[Queue, int] | None = None
) -> AsyncIterator[DeadLetter]:
    """Read the letters that lie before `ends`, or that the topics have now, queue by queue, and yield the chosen ones."""
    ends = await find_letter_ends(admin, topics) if ends is None else ends
    for topic in topics:
        starts = await admin.offsets.at(topic, "first" if selection.since_ms is None else selection.since_ms)
        for queue, start in starts.items():
            async for message in admin.messages.read_queue(queue, start, ends.get(queue, 0)):
                letter = letter_of(message, topic, namespace)
                if selection.chooses(letter):
                    yield letter


async def resend_stream(
    admin: Admin,
    producer: Producer,
    letters: Iterable[DeadLetter] | AsyncIterable[DeadLetter],
    record_path: Path,
    by: str,
    on_progress: OnProgress,
    *,
    cluster: LetterCluster,
) -> ResendResult:
    """Send letters of a cluster to their original topics, except those that the record has."""
    with ResendRecord(record_path, cluster) as record:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        resender = Resender(admin, producer, record, uuid4().hex, by, at)
        result = ResendResult()
        async for result in resender.resend(letters):
            on_progress(JobProgress("resending", result.sent + result.known, unit="letters"))
        return result

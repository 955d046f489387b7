"""Archives for tests: sends messages of many shapes, and reads what an archive has, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.pipelines.archive.layout import parse_partition
from skyrocket.pipelines.archive.reading import archive_files
from skyrocket.pipelines.replay.origin import user_properties
from skyrocket.protocol.message.properties import SHARDING_KEY
from tests.support.waiting import wait_until

Row = dict[str, Any]
TAGS = ("paid", "sent", "")


def create(nameserver: str, topic: str, queues: int = 2) -> None:
    with Admin(nameserver) as admin:
        admin.topics.create(topic, queues=queues)


def create_again(nameserver: str, topic: str, queues: int = 2) -> None:
    """Delete a topic with its messages, and create it again: its offsets begin at 0."""
    with Admin(nameserver) as admin:
        admin.topics.delete(topic)
    create(nameserver, topic, queues)
    await_ends(nameserver, topic, 0)


def await_ends(nameserver: str, topic: str, total: int) -> None:
    """Wait until the queues show so many messages together: Apache's broker builds them after it has answered a send."""

    def shown() -> int:
        with Admin(nameserver) as admin:
            return sum(row.end_offset for row in admin.topics.status(topic).queues)

    wait_until(lambda: shown() == total, f"{total} messages in {topic}")


def fill(nameserver: str, topic: str, broker: str, count: int, queues: int = 2, first: int = 0) -> None:
    """Send numbered messages with tags, keys, properties and bodies of all sizes, queue by queue."""
    with Producer(nameserver, group="fills-archives") as producer:
        for queue_id in range(queues):
            messages = [_message(topic, number) for number in range(first + queue_id, first + count, queues)]
            for at in range(0, len(messages), 200):
                producer.send_batch(messages[at : at + 200], queue=Queue(topic, broker, queue_id))


def _message(topic: str, number: int) -> Message:
    about = {"color": "red" if number % 3 else "blau grün", "number": str(number)} if number % 4 else {}
    return Message(
        topic,
        b"%d " % number + b"\x00\xff" * (number % 50),
        tag=TAGS[number % 3],
        keys=[f"k{number}", "all"] if number % 5 else [],
        properties=about,
        sharding_key=f"s{number % 7}" if number % 2 else "",
    )


def rows(root: Path) -> list[Row]:
    """Return all rows of an archive, in the order of topics, queues and offsets."""
    found: list[Row] = []
    for path in archive_files(root):
        place = parse_partition(str(Path(path).relative_to(root)))
        assert place is not None, path
        table = pq.ParquetFile(path).read()
        found += [{**row, "topic": place[0], "hour": place[1]} for row in table.to_pylist()]
    return sorted(found, key=lambda row: (row["topic"], row["broker"], row["queueId"], row["queueOffset"]))


def places(found: list[Row]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["queueId"], row["queueOffset"]) for row in found]


def contents(found: list[Row]) -> list[tuple[Any, ...]]:
    """Return what a replay must not change, in the order of queues and offsets: everything but places, times and ids."""
    return [
        (
            *(row["queueId"], row["tags"], row["keys"], row["body"]),
            sorted(user_properties(dict(row["properties"])).items()),
            dict(row["properties"]).get(SHARDING_KEY, ""),
        )
        for row in found
    ]


def origin_ids(found: list[Row]) -> list[str]:
    """Return the ids of the originals: those that a replay has kept, or the messages' own."""
    return [dict(row["properties"]).get("SKYROCKET_ORIGIN_ID", row["msgId"]) for row in found]

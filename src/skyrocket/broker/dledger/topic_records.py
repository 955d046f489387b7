"""Changes of topics as messages in the log of a group.

Followers copy the leader's tables every few seconds. A leader that dies in between would take the settings of its newest topics
along, while their messages are confirmed: also those that wait in the topics of delays and transactions, and get into their own
queue at the next leader. So a leader writes each change into the log, before any message that needs it. The next leader applies
the changes that are newer than its table.

    SELF_TEST_TOPIC, queue 0     {"name": …, "config": settings, or absent for a deleted topic, "version": of the table}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import field

from skyrocket.protocol.bodies.body import Body, DataVersion
from skyrocket.protocol.bodies.topics import TopicConfig
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.system_names import SELF_TEST_TOPIC
from skyrocket.store.message import AppendRequest, append_request_of
from skyrocket.store.message_store import MessageStore

RECORDS_MAX: Final = 4_096  # that a new leader looks at


class TopicChange(Body):
    name: str = ""
    config: TopicConfig | None = None
    version: DataVersion = field(default_factory=DataVersion)


def make_topic_records(
    changes: Mapping[str, TopicConfig | None], version: DataVersion, now_ms: int, host: bytes
) -> list[AppendRequest]:
    """Return the messages for some changes, after which the table had this version."""
    bodies = [encode(TopicChange(name=name, config=config, version=version)) for name, config in changes.items()]
    return [
        append_request_of(Record(topic=SELF_TEST_TOPIC, body=body, born_timestamp=now_ms, born_host=host, store_host=host))
        for body in bodies
    ]


def read_topic_records(store: MessageStore) -> list[memoryview]:
    """Return the newest messages of the queue, changes and others. Its reads may wait for the disk."""
    queue = store.queues.get(SELF_TEST_TOPIC, 0)
    if queue is None:
        return []
    found: list[memoryview] = []
    offset = max(queue.min_offset, queue.max_offset - RECORDS_MAX)
    while offset < queue.max_offset:
        read = store.reading.messages(SELF_TEST_TOPIC, 0, offset, RECORDS_MAX)
        found += read.records
        if read.next_offset <= offset:
            break
        offset = read.next_offset
    return found


def newer_changes(
    records: Iterable[memoryview], version: DataVersion, *, report: Callable[[str], None]
) -> dict[str, TopicConfig | None]:
    """Return the last change of each topic that a table of this version does not have.

    Two leaders that did not know of each other's changes give them the same numbers, and different times.
    """
    found: dict[str, TopicConfig | None] = {}
    for record in records:
        body = decode_record(record).body
        if not body.startswith(b"{"):
            continue  # a marker, or somebody's message
        try:
            change = decode(body, TopicChange)
        except ProtocolError as error:
            report(f"A change of a topic in the log cannot be read: {error}")
            continue
        if change.version.counter > version.counter or change.version.timestamp > version.timestamp:
            found[change.name] = change.config
    return found

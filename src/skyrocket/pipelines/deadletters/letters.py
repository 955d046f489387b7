"""A dead letter: a message of a dead-letter topic, with where it came from and why it is there. Plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skyrocket.client.message import RESERVED_PROPERTIES
from skyrocket.client.producer.sequence import PRODUCER_ID, SEQUENCE
from skyrocket.client.session.namespaces import without_namespace
from skyrocket.protocol.message.properties import RETRY_TOPIC, SHARDING_KEY, TRANSACTION_CHECK_TIMES, TRANSACTION_ID

COLUMNS: Final = (
    *("topic", "broker", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp", "bornHost", "msgId"),
    *("tags", "keys", "reconsumeTimes", "properties", "body"),
)
"""The columns of the Spark source that a letter is made of."""

ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"  # Apache's brokers write it since 5.0; older ones leave RETRY_TOPIC
CAUSE_PROPERTIES: Final = ("exception", "error", "cause", "failure", "exception-message", "x-exception", "x-exception-message")
"""Properties, in any case and with - or _, in which applications leave the reason of a failure. RocketMQ itself has none."""

RESENT_PREFIX: Final = "SR_RESENT_"  # before the names of properties that tell about a resend
_NOT_THE_USERS: Final = RESERVED_PROPERTIES | {SHARDING_KEY, TRANSACTION_ID, TRANSACTION_CHECK_TIMES, PRODUCER_ID, SEQUENCE}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter."""

    topic: str  # the dead-letter topic
    broker_name: str
    queue_id: int
    queue_offset: int
    log_offset: int  # in the broker's commit log
    origin_topic: str  # from which the group consumed it; empty: its properties do not tell
    died_ms: int  # when the broker stored it among the dead letters
    born_ms: int
    message_id: str
    tag: str
    keys: tuple[str, ...]
    retries: int
    properties: Mapping[str, str]
    body: bytes

    @property
    def letter_id(self) -> str:
        """The identity of this letter: a message that dies twice is two letters, by their places in the log.

        The message id tells letters of two brokers of one name apart: of another cluster, or one that was set up again.
        """
        return f"{self.place}:{self.message_id}"

    @property
    def place(self) -> str:
        """Where the letter lies. Records of earlier versions have this as its identity."""
        return f"{self.broker_name}:{self.log_offset}"

    @property
    def sharding_key(self) -> str:
        return self.properties.get(SHARDING_KEY, "")

    def cause(self, names: tuple[str, ...] = ()) -> str:
        """Return what its properties say about the failure: the first of `names`, or of CAUSE_PROPERTIES. Empty: nothing."""
        plain = {name.lower().replace("_", "-"): value for name, value in self.properties.items()}
        for name in (*names, *CAUSE_PROPERTIES):
            found = plain.get(name.lower().replace("_", "-"), "")
            if found:
                return found
        return ""

    @property
    def user_properties(self) -> dict[str, str]:
        """The application's own properties, without those of an earlier resend and without the sequence stamp."""
        return {
            name: value
            for name, value in self.properties.items()
            if name not in _NOT_THE_USERS and not name.startswith(RESENT_PREFIX)
        }


def origin_of(properties: Mapping[str, str]) -> str:
    """Return the topic from which the group consumed a message, as on the wire. Empty: its properties do not tell."""
    return properties.get(ORIGIN_TOPIC) or properties.get(RETRY_TOPIC, "")


def letters_of(batch: Any, namespace: str = "") -> Iterator[DeadLetter]:
    """Make the letters of an Arrow batch with COLUMNS. Names of topics lose the namespace."""
    columns = {name: batch.column(name) for name in COLUMNS}
    times = {name: columns[name].cast("int64").to_pylist() for name in ("storeTimestamp", "bornTimestamp")}
    values = {name: column.to_pylist() for name, column in columns.items() if name not in times}
    for row in range(batch.num_rows):
        properties = dict(values["properties"][row] or ())
        yield DeadLetter(
            topic=values["topic"][row],
            broker_name=values["broker"][row],
            queue_id=values["queueId"][row],
            queue_offset=values["queueOffset"][row],
            log_offset=values["physicalOffset"][row],
            origin_topic=without_namespace(namespace, origin_of(properties)),
            died_ms=times["storeTimestamp"][row] // 1000,
            born_ms=times["bornTimestamp"][row] // 1000,
            message_id=values["msgId"][row],
            tag=values["tags"][row] or "",
            keys=tuple(values["keys"][row] or ()),
            retries=values["reconsumeTimes"][row],
            properties=properties,
            body=values["body"][row],
        )

"""The append that the fast path builds from the frames of a read event, and the topics that its messages go to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from skyrocket.broker.send.contributors import Contribution
from skyrocket.broker.send.responses import AnswerRow
from skyrocket.protocol.message.record import magic_for, topic_field
from skyrocket.store.log.readdress import ReaddressRequest, readdress_records
from skyrocket.store.message import AppendPosition, DispatchFields


class TargetTopic(NamedTuple):
    """A topic that messages of a batch are stored in: the one they were sent to, or the one they are redirected to."""

    topic: str
    queues: int  # queue ids below this one are valid; 0 where producers may not send
    magic: int
    topic_bytes: bytes  # the topic's length and name, as a record holds them
    next_offsets: dict[int, int]  # by queue id


class SendBatch:
    """Records, queue entries and response rows of one append."""

    __slots__ = (
        "answers",
        "contribution",
        "dispatches",
        "header_bytes",
        "known",
        "next_offsets",
        "parts",
        "position",
        "redirect_targets",
        "stop",
        "stored_next_offset",
        "targets",
        "timestamp",
    )

    def __init__(
        self,
        position: int,
        stop: int,
        timestamp: int,
        stored_next_offset: Callable[[tuple[str, int]], int],
        header_bytes: int = 0,
    ) -> None:
        self.position = position  # where the next record goes
        self.header_bytes = header_bytes  # between two records in the log, which the store fills in
        self.stop = stop  # where the segment of the log ends
        self.timestamp = timestamp  # the store timestamp of all records
        self.stored_next_offset = stored_next_offset  # the next offset of a queue that has no message in this batch yet
        self.parts: list[bytes] = []  # pieces of the records; joined once, as small allocations are expensive
        self.dispatches: list[DispatchFields] = []
        self.answers: list[AnswerRow] = []
        self.targets: dict[str, TargetTopic] = {}  # topics that producers sent to
        self.redirect_targets: dict[str, TargetTopic] = {}  # system topics, which producers may not send to
        self.next_offsets: dict[str, dict[int, int]] = {}  # after this batch, by topic and queue id
        self.known: object = None  # what the compiled loop has looked up for this batch
        self.contribution: Contribution | None = None  # begun at the first frame that a contributor claims

    def target(self, topic: str, queues: int) -> TargetTopic:
        magic = magic_for(topic)
        fields = (topic, queues, magic, topic_field(topic, magic), self.next_offsets.setdefault(topic, {}))
        return tuple.__new__(TargetTopic, fields)  # in half the time of its constructor

    def readdress(self, requests: list[ReaddressRequest]) -> bool:
        """Copy records of the log behind the records so far, each under its new address.

        Return False, and add none, when they do not fit or need the general path.
        """

        def next_offset(queue: tuple[str, int]) -> int:
            found = self.next_offsets.get(queue[0], {}).get(queue[1])
            return self.stored_next_offset(queue) if found is None else found

        opening = AppendPosition(self.position, self.stop - self.position, self.timestamp, self.header_bytes)
        run = readdress_records(requests, opening, next_offset)
        if run is None:
            return False
        data, dispatches, following = run
        self.parts.append(data)
        self.dispatches += dispatches
        self.position += len(data) + len(dispatches) * self.header_bytes
        for (topic, queue_id), offset in following.items():
            self.next_offsets.setdefault(topic, {})[queue_id] = offset
        return True

    def following_offsets(self) -> dict[tuple[str, int], int]:
        """The next offset of each queue after this batch."""
        return {(topic, queue_id): offset for topic, offsets in self.next_offsets.items() for queue_id, offset in offsets.items()}

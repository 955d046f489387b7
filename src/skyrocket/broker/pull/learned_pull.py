"""What the fast path has learned of pulls with headers of one shape: a consumer's pulls of one queue.

Their header is decoded once. The terms of their checks are kept as long as their basis (`PullChecks.basis`) is the same, and so
are the keys under which their offsets, counts and lag are noted.
"""

from __future__ import annotations

from skyrocket.broker.load.slow_consumers import QueueReader
from skyrocket.broker.pull.checks import PullTerms
from skyrocket.broker.tables.consumer_offsets import offsets_key
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET
from skyrocket.store.queues.entry_window import EntryWindow


class LearnedTerms:
    """The terms of pulls of one shape, with a basis that may change."""

    __slots__ = ("basis", "bytes_max", "codes", "messages_max", "suggested", "terms")

    def __init__(
        self, basis: tuple[object, ...], terms: PullTerms, messages_max: int, bytes_max: int, suggested: int | None
    ) -> None:
        """`suggested` is the broker id that each response suggests; None when that depends on the messages."""
        self.basis = basis
        self.terms = terms
        self.codes = terms.message_filter.codes
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.suggested = suggested


class LearnedPull:
    __slots__ = (
        "code",
        "commits",
        "group",
        "header",
        "key",
        "learned_terms",
        "queue_id",
        "reader",
        "serialization",
        "topic",
        "window",
    )

    def __init__(self, code: int, serialization: Serialization, header: PullMessageRequestHeader) -> None:
        """`header` has the numbers of the first pull."""
        self.code = code
        self.serialization = serialization
        self.header = header
        self.group = header.consumer_group
        self.topic = header.topic
        self.queue_id = header.queue_id
        self.commits = bool(header.sys_flag & PULL_COMMIT_OFFSET)
        self.key = offsets_key(header.topic, header.consumer_group)  # of offsets and counters
        self.reader = QueueReader(header.consumer_group, header.topic, header.queue_id)
        self.window = EntryWindow()
        self.learned_terms: LearnedTerms | None = None

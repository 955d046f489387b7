"""One look at a cluster: offsets, members and retention at one moment. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skyrocket.client.queues import Queue
from skyrocket.protocol.system_names import RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class QueueLook:
    """The progress of a group in one queue."""

    queue: Queue
    first_offset: int  # of the oldest message that the queue still has
    end_offset: int  # one after the newest message
    committed_offset: int
    oldest_unread_ms: int = 0  # when the message at the committed offset was stored; 0: unknown, or nothing waits

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.committed_offset)

    @property
    def expired(self) -> int:
        """Messages that were deleted before the group had read them."""
        return max(0, min(self.first_offset, self.end_offset) - self.committed_offset)

    @property
    def is_retry(self) -> bool:
        return self.queue.topic.startswith(RETRY_PREFIX)


@dataclass(frozen=True, slots=True)
class MemberLook:
    """A connected member of a group. `error` says why the member did not tell its queues and subscriptions."""

    client_id: str
    address: str = ""
    language: str = ""
    version: str = ""
    subscriptions: Mapping[str, str] = field(default_factory=dict)  # topic -> expression
    subscription_types: Mapping[str, str] = field(default_factory=dict)  # topic -> TAG or SQL92
    is_broadcasting: bool | None = None  # None: it does not tell
    queues: frozenset[Queue] = frozenset()
    cached: Mapping[Queue, int] = field(default_factory=dict)  # messages that it has pulled and not finished
    positions: Mapping[Queue, int] = field(default_factory=dict)  # its own offsets, which it commits every few seconds
    error: str = ""


@dataclass(frozen=True, slots=True)
class GroupLook:
    """A group: its queues and its members."""

    group: str
    queues: Sequence[QueueLook] = ()
    members: Sequence[MemberLook] = ()
    is_broadcasting: bool = False

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """All groups that were asked about, at one moment."""

    at_ms: int
    groups: Sequence[GroupLook] = ()
    reserved_ms: Mapping[str, int] = field(default_factory=dict)  # broker name -> how long it keeps messages
    unanswered: Mapping[str, str] = field(default_factory=dict)  # group -> why nothing is known of it

"""What the leader knows of one follower.

COMPARE ──equal, follower longer──▶ TRUNCATE ──done──▶ APPEND
   ▲  └──equal, same end──────────────────────────────▶  │
   └──────── 406, lost entries, connection closed ───────┘
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


class PeerState(Enum):
    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"
    APPEND = "APPEND"


class InflightPush(Struct):
    """An APPEND that is not answered yet."""

    count: int
    sent_at: float


class FollowerProgress(Struct):
    """One follower, as the leader of the current term sees it."""

    state: PeerState = PeerState.COMPARE
    compare_index: int = -1
    """The index to compare or truncate at; -1: the end of the leader's log."""
    equal_at: int = -1
    """The last index at which the logs were found equal, since comparing began; -1: none yet."""
    differs_at: int = -1
    """The first index at which they were found to differ; -1: none yet."""
    steps_back: int = 1
    """How far the next comparison goes back. It doubles until an equal entry is found; then the range is halved."""
    waiting: int = 0
    """The id of the COMPARE or TRUNCATE without an answer, or 0."""
    waiting_since: float = 0
    reading: int = 0
    """The id of the push whose entries the shell reads, or 0."""
    retry_at: float = 0
    next: int = 0
    match: int = -1
    """The watermark: entries up to here are durable at the follower."""
    inflight: dict[int, InflightPush] = field(default_factory=dict)
    """By first index, in order."""
    pushed_at: float = 0
    commit_told: int = -1
    answered_at: float = 0
    """When the last heartbeat or push was sent that the follower has answered with success: it followed this leader then."""
    learner_since: float | None = None
    """Since when the follower says that it has lost its disk. Its copies do not count."""
    learner_target: int = -1
    """The leader's end when it learned that. A learner that has it lacks nothing that it may have acknowledged before."""
    alive: bool = False
    binary: bool = False

    def compare_again(self, now: float, pause_ms: float = 0, index: int = -1) -> None:
        """Stop appending, and find the last common entry."""
        if index < 0:  # otherwise the same comparison is repeated
            self.equal_at, self.differs_at, self.steps_back = -1, -1, 1
        self.state = PeerState.COMPARE
        self.compare_index = index
        self.waiting = 0
        self.reading = 0
        self.inflight.clear()
        self.retry_at = now + pause_ms

    def note_equal(self, index: int) -> int | None:
        """The logs are equal up to `index`, and differ behind. Return where to compare next; None when that is the last one."""
        self.equal_at = max(self.equal_at, index)
        return None if self.differs_at <= self.equal_at + 1 else (self.equal_at + self.differs_at) // 2

    def note_different(self, index: int, first: int) -> int | None:
        """The entries at `index` differ. Return where to compare next, from `first` on; None when nothing is equal.

        Going back one by one would take as many messages as entries differ.
        """
        self.differs_at = index
        if self.equal_at >= index:  # the follower's log has changed meanwhile
            self.equal_at = -1
        if self.equal_at >= 0:
            return self.equal_at if index <= self.equal_at + 1 else (self.equal_at + index) // 2
        if index <= first:
            return None
        back, self.steps_back = self.steps_back, self.steps_back * 2
        return max(first, index - back)

    def truncate_at(self, index: int) -> None:
        self.state = PeerState.TRUNCATE
        self.compare_index = index
        self.waiting = 0

    def append_after(self, index: int) -> None:
        """The follower's log ends with `index`, and equals the leader's up to there."""
        self.state = PeerState.APPEND
        self.compare_index = -1
        self.waiting = 0
        self.match = index
        self.next = index + 1
        self.inflight.clear()

    def acknowledge(self, last: int) -> None:
        """The follower has everything up to `last`."""
        self.match = max(self.match, last)
        self.next = max(self.next, self.match + 1)
        for first in list(self.inflight):
            if first + self.inflight[first].count - 1 > self.match:
                break
            del self.inflight[first]

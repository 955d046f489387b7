"""What is known of a store directory. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skyrocket.doctor.disk_levels import DiskLevels


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """How far the checkpoint says that the log is on disk, beside how far it goes."""

    log_end: int
    safe_end: int | None  # None: Apache wrote it, and tells only times
    newest_ms: int  # when the newest message was stored; 0: there is none
    queued_ms: int  # the newest message that is certainly in its queue

    @property
    def behind_bytes(self) -> int | None:
        return None if self.safe_end is None else max(0, self.log_end - self.safe_end)

    @property
    def behind_ms(self) -> int:
        return max(0, self.newest_ms - self.queued_ms) if self.newest_ms else 0


@dataclass(frozen=True, slots=True)
class VerifiedFacts:
    """What a check of every message found. `messages` were checked."""

    messages: int
    findings: Sequence[str]  # the first of them
    count: int


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store directory. With `layout_error`, its layout is unclear, and nothing else is known but the disk."""

    directory: str
    disk: DiskLevels
    layout_error: str = ""
    is_locked: bool = False  # a broker runs over it
    process_id: int | None = None  # of that broker, if it can be seen
    has_abort_file: bool = False
    has_failed_flush: bool = False
    log_bytes: int = 0
    checkpoint: CheckpointFacts | None = None
    verified: VerifiedFacts | None = None  # None: too large to be read whole
    damaged_files: Sequence[str] = ()
    diverged_files: Sequence[str] = ()
    kept_hours: int = 0  # the retention that counts here
    expired_segments: Sequence[str] = ()  # files all of whose messages are older than that, by more than a day
    oldest_ms: int = 0  # when the oldest of these segments got its last message
    now_ms: int = 0

    @property
    def about(self) -> str:
        return f"store {self.directory}"

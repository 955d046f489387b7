"""A slave's connection to its master, once it streams. Pure: bytes, log positions and the time in, what to do out.

    report(end of the log) ─► transfers ─► whole records to append ─► report(end of the log)

Every transfer must begin exactly where the bytes before it ended. A slave of Apache's master may begin one byte late: see
`MISSING_BYTE`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from skyrocket.broker.errors import ReplicationError
from skyrocket.broker.replication.ha_frames import REPORT, TransferSplitter
from skyrocket.store.replica.record_splitter import RecordSplitter, ReplicaRun

# Apache's master begins at its last file when a slave reports 0, and exactly where the slave says otherwise. So a new slave that
# wants the log from 0 on reports 1, and knows the byte that it does not get: the first one of a record's size, whose largest has
# three bytes.
MISSING_BYTE: Final = b"\0"


class StartAt(Enum):
    """Where the master shall begin."""

    POSITION = auto()  # where the slave's log ends, or where the empty log of the slave shall start
    SECOND_BYTE = auto()  # at 1: an empty slave of Apache's master, whose log starts at 0
    ANYWHERE = auto()  # where the master likes: an empty slave that could not ask where the master's log starts


class SlaveLink:
    def __init__(self, position: int, segment_bytes: int, now_ms: int, start: StartAt = StartAt.POSITION) -> None:
        """`position` is where the next byte of the slave's log goes."""
        self._transfers = TransferSplitter()
        self._segment_bytes = segment_bytes
        self._records = RecordSplitter(segment_bytes, position)
        if start is StartAt.SECOND_BYTE:
            assert position == 0
            self._records.feed(MISSING_BYTE)
        self._takes_any_start = start is StartAt.ANYWHERE
        self._reported = self._records.position
        self._heard_ms = self._reported_ms = now_ms

    @property
    def position(self) -> int:
        """Where the next byte from the master goes."""
        return self._records.position

    def first_report(self) -> bytes:
        return REPORT.pack(self._reported)

    def receive(self, data: bytes, now_ms: int) -> list[ReplicaRun]:
        """Return whole records to append. Raise ReplicationError or ReplicaDataError when the connection has to be closed."""
        self._heard_ms = now_ms
        runs: list[ReplicaRun] = []
        for offset, body in self._transfers.feed(data):
            if self._takes_any_start and body:
                self._begin(offset)
            elif offset != self._records.position and not self._takes_any_start:
                raise ReplicationError(
                    f"The master sent the log from {offset} on, but this slave needs it from {self._records.position} on."
                )
            if body:
                runs += self._records.feed(body)
        return runs

    def _begin(self, offset: int) -> None:
        if offset % self._segment_bytes:
            raise ReplicationError(
                f"The master sent the log from {offset} on, which is not the start of a file of {self._segment_bytes} bytes. "
                f"Set mappedFileSizeCommitLog to the master's."
            )
        self._records = RecordSplitter(self._segment_bytes, offset)
        self._takes_any_start = False

    def report(self, log_end: int, now_ms: int) -> bytes:
        """Return a report if the slave has more than it has reported."""
        if log_end <= self._reported:
            return b""
        self._reported, self._reported_ms = log_end, now_ms
        return REPORT.pack(log_end)

    def check_time(self, now_ms: int, heartbeat_ms: int, silence_ms: int) -> bytes:
        """Return a report if one is due. Raise ReplicationError when the master has been silent for too long."""
        if now_ms - self._heard_ms > silence_ms:
            raise ReplicationError(f"The master has been silent for {now_ms - self._heard_ms} ms.")
        if now_ms - self._reported_ms < heartbeat_ms:
            return b""
        self._reported_ms = now_ms
        return REPORT.pack(self._reported)

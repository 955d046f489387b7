"""One slave's connection, as its master sees it. Pure: bytes, log positions and the time in, what to do out.

    first report ─► where to begin ─► transfers, as the log grows ─► acknowledgements
                                      heartbeats while it does not

| first report                | what the master does                                                                          |
|-----------------------------|-----------------------------------------------------------------------------------------------|
| 0: an empty slave           | begins at the first segment. Apache's master begins at its last, and the slave misses the rest |
| within the log              | begins there                                                                                  |
| behind the end of the log   | closes: the slave has what the master has not                                                 |
| before the start of the log | closes: what the slave needs is deleted, and Apache's protocol cannot tell it to start anew   |

A later report acknowledges everything before it. It may neither go back nor exceed what was sent.
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.broker.errors import ReplicationError
from skyrocket.broker.replication.ha_frames import REPORT, encode_transfer


class LogBounds(NamedTuple):
    """The master's log: where it starts and ends, and how long its segments are."""

    start: int
    end: int
    segment_bytes: int


class MasterLink:
    def __init__(self, now_ms: int) -> None:
        self._kept = b""  # an incomplete report
        self._heard_ms = now_ms
        self._sent_ms = now_ms
        self.next_offset: int | None = None  # where the next transfer begins; None before the first report
        self.acknowledged = 0  # the slave has everything before it

    @property
    def is_streaming(self) -> bool:
        return self.next_offset is not None

    def receive(self, data: bytes, log: LogBounds, now_ms: int) -> None:
        """Take reports. Raise ReplicationError when the connection has to be closed."""
        self._heard_ms = now_ms
        data = self._kept + data
        whole = len(data) - len(data) % REPORT.size
        self._kept = data[whole:]
        for (offset,) in REPORT.iter_unpack(data[:whole]):
            self._take_report(offset, log)

    def note_heard(self, now_ms: int) -> None:
        """The slave has said something else than a report."""
        self._heard_ms = now_ms

    def start_at(self, offset: int, log: LogBounds) -> None:
        """Begin with the log at `offset`. Raise ReplicationError when the log does not have it."""
        if offset > log.end:
            raise ReplicationError(
                f"it has the log up to {offset}, but this master only up to {log.end}: it has messages that this master has not. "
                f"Make it the master, or empty its store"
            )
        if offset < log.start:
            raise ReplicationError(
                f"it has the log up to {offset}, but this master has deleted everything before {log.start}. Empty its store, "
                f"and it starts there"
            )
        self.next_offset = self.acknowledged = offset

    def _take_report(self, offset: int, log: LogBounds) -> None:
        if offset < 0:
            raise ReplicationError(f"it reported {offset}, which is no position in a log")
        if self.next_offset is None:
            if offset:
                self.start_at(offset, log)
            else:
                self.next_offset = log.start
        elif offset > self.next_offset:
            raise ReplicationError(f"it acknowledged the log up to {offset}, but only {self.next_offset} was sent")
        elif offset < self.acknowledged:
            raise ReplicationError(f"it acknowledged the log up to {offset}, after {self.acknowledged}")
        else:
            self.acknowledged = offset

    def next_range(self, log: LogBounds, bytes_max: int) -> tuple[int, int]:
        """Return where the next transfer begins and how many bytes it may have; 0 when there is nothing to send."""
        offset = self.next_offset
        if offset is None or offset >= log.end:
            return 0, 0
        if offset < log.start:
            raise ReplicationError(f"it needs the log from {offset} on, but everything before {log.start} was deleted meanwhile")
        segment_end = offset - offset % log.segment_bytes + log.segment_bytes
        return offset, min(log.end, segment_end, offset + bytes_max) - offset

    def send(self, offset: int, body: bytes, now_ms: int) -> bytes:
        """Return the encoded transfer of bytes that `next_range` has named, or of the first part of them."""
        assert offset == self.next_offset
        self.next_offset = offset + len(body)
        self._sent_ms = now_ms
        return encode_transfer(offset, body)

    def check_time(self, now_ms: int, heartbeat_ms: int, silence_ms: int) -> bytes:
        """Return a heartbeat if one is due. Raise ReplicationError when the slave has been silent for too long."""
        if now_ms - self._heard_ms > silence_ms:
            raise ReplicationError(f"it has been silent for {now_ms - self._heard_ms} ms")
        if self.next_offset is None or now_ms - self._sent_ms < heartbeat_ms:
            return b""
        self._sent_ms = now_ms
        return encode_transfer(self.next_offset)

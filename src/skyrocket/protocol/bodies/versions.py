"""DataVersion: which state of a table a peer has seen."""

from __future__ import annotations

from skyrocket.protocol.bodies.body import Body, Int64


class DataVersion(Body):
    """Two versions are the same state when all three numbers are equal; Java's default timestamp is the time of creation."""

    state_version: Int64 = 0
    timestamp: Int64 = 0
    counter: Int64 = 0

    def next(self, state_version: int, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(state_version=state_version, timestamp=now_ms, counter=self.counter + 1)

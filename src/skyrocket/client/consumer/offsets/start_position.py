"""Where a group starts in a queue in which it has no committed offset. The rules equal those of Apache's client. Pure.

    start              a queue of the topic             a queue of the retry topic
    first              its first message                its first message
    last               after its last message           its first message: pending retries are not skipped
    a time             its first message since then     after its last message

If a broker still has a queue from its first message on, it reports offset 0 for a group that it has no offset of, whatever the
rule. So messages that are sent to a new queue before the first consumer starts are not lost.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final, Literal, NamedTuple

from skyrocket.client.errors import ConfigurationError
from skyrocket.protocol.bodies import ConsumeFromWhere

Start = Literal["first", "last"] | datetime | int
"""`first`, `last`, a datetime with a time zone, or milliseconds since 1970."""


class StartOffset(Enum):
    """The offset at which a queue starts."""

    MIN = auto()  # 0; the broker corrects it if the first messages are deleted
    MAX = auto()
    TIMESTAMP = auto()


_START_OFFSETS: Final = {
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET: (StartOffset.MIN, StartOffset.MIN),
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET: (StartOffset.MAX, StartOffset.MIN),
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP: (StartOffset.TIMESTAMP, StartOffset.MAX),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StartPosition(NamedTuple):
    """A parsed `Start`."""

    where: ConsumeFromWhere
    at_ms: int = 0

    def start_offset(self, *, is_retry: bool) -> StartOffset:
        return _START_OFFSETS[self.where][is_retry]


def parse_start(start: Start) -> StartPosition:
    """Parse what a user wrote. Raises ConfigurationError."""
    if start == "first":
        return StartPosition(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    if start == "last":
        return StartPosition(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
    return StartPosition(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, to_epoch_ms(start))


def to_epoch_ms(time: object) -> int:
    """Convert a datetime with a time zone to milliseconds since 1970. An integer is returned unchanged."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ConfigurationError(f"{time} has no time zone. Give it one, as datetime.now(UTC) has.")
        return (time - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(time, int) and not isinstance(time, bool) and time >= 0:
        return time
    raise ConfigurationError(f"A start is 'first', 'last', a datetime or milliseconds since 1970, not {time!r}.")

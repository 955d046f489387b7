"""Where a group begins in a queue of which it has no offset yet. The rules are those of Apache's client; pure.

                       a topic's queue              its retry topic's queue
    first              its beginning                its beginning
    last               its end                      its beginning: what was to be retried is not skipped
    a moment           the first message since      its end

A broker that still has a young queue from its first message on tells offset 0 for a group that it does not know, whatever the
rule: so what is sent to a new queue before anyone consumes it is not lost.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final, Literal, NamedTuple

from skyrocket.client.errors import ConfigurationError
from skyrocket.protocol.bodies import ConsumeFromWhere

Start = Literal["first", "last"] | datetime | int
"""`first`, `last`, a moment with its time zone, or milliseconds since 1970."""


class Place(Enum):
    BEGINNING = auto()  # 0, which the broker corrects where the first ones are gone
    END = auto()
    MOMENT = auto()


_PLACES: Final = {
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET: (Place.BEGINNING, Place.BEGINNING),
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET: (Place.END, Place.BEGINNING),
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP: (Place.MOMENT, Place.END),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StartPosition(NamedTuple):
    where: ConsumeFromWhere
    at_ms: int = 0

    def place(self, *, is_retry: bool) -> Place:
        return _PLACES[self.where][is_retry]


def start_position(start: Start) -> StartPosition:
    if start == "first":
        return StartPosition(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    if start == "last":
        return StartPosition(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
    return StartPosition(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, moment_ms(start))


def moment_ms(moment: object) -> int:
    """Of a datetime with its zone, or of a number that is milliseconds already."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigurationError("A moment needs a time zone, such as datetime.now(UTC) has.")
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(moment, int) and not isinstance(moment, bool) and moment >= 0:
        return moment
    raise ConfigurationError(f"A group starts 'first', 'last', at a datetime or at milliseconds since 1970, not at {moment!r}.")

"""Loss detection: gaps, repeats and disorder in a producer's messages, from the sequence numbers of `Producer(stamp=True)`.

A stamp has the producer's id and the message's sequence number within its queue. A consumer, or an audit over a store, records
each message in a detector, which keeps the numbers as ranges:

    seen 1 2 3 . 5 6 6 4 . . 9       ranges [1-6] [9-9]        missing 7-8, one repeat, one late (the 4, after 6)

A number is *missing* while higher ones have been seen; *late* when it comes after a higher one, which is disorder and not loss;
*repeated* when it has been seen before. Counting begins at the lowest number seen, unless `begins_at` says where each producer
begins. Messages after the highest number seen cannot be detected as missing.

Record messages as they are in the queue to which they were sent. A message from a retry topic carries the stamp of another queue.
A gap need not be a loss: a number is also missing when its send failed with an error, or went to another queue after a failure.

Memory is bounded: so many ranges for each stream (one producer, one queue), and so many streams. Beyond the bound of ranges the
detector gives up the oldest gap: its numbers count as missing for good, and would count as repeats if they came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from skyrocket.client.producer.sequence import PRODUCER_ID, SEQUENCE
from skyrocket.client.queues import Queue

RANGES_MAX: Final = 1_000  # of one stream
STREAMS_MAX: Final = 10_000
GAPS_IN_A_SENTENCE: Final = 5


class Gap(NamedTuple):
    """Missing numbers, from `first` to `last`."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


class NumberStream:
    """The sequence numbers of one producer in one queue."""

    __slots__ = ("_ends", "_starts", "given_up", "late", "repeated", "seen")

    def __init__(self, begins_at: int | None = None) -> None:
        self._starts: list[int] = []  # first number of each range seen; ranges ascend and do not touch
        self._ends: list[int] = []  # last number of each range
        if begins_at is not None:
            self._starts.append(begins_at - 1)  # a pretended range before the first number
            self._ends.append(begins_at - 1)
        self.seen = 0
        self.repeated = 0
        self.late = 0
        self.given_up = 0  # missing numbers of gaps that were dropped to save memory

    def record(self, number: int) -> None:
        """Add a number to the ranges, and count it as new, late or repeated."""
        starts, ends = self._starts, self._ends
        if ends and number == ends[-1] + 1:  # nearly always
            ends[-1] = number
            self.seen += 1
            return
        at = bisect_right(starts, number) - 1  # the range that may contain it
        if at >= 0 and number <= ends[at]:
            self.repeated += 1
            return
        self.seen += 1
        self.late += at + 1 < len(starts)
        follows = at >= 0 and number == ends[at] + 1
        precedes = at + 1 < len(starts) and number == starts[at + 1] - 1
        if follows and precedes:
            ends[at] = ends.pop(at + 1)
            del starts[at + 1]
        elif follows:
            ends[at] = number
        elif precedes:
            starts[at + 1] = number
        else:
            starts.insert(at + 1, number)
            ends.insert(at + 1, number)

    def limit_ranges(self, ranges_max: int) -> None:
        """Close the oldest gaps until there are at most `ranges_max` ranges."""
        while len(self._starts) > ranges_max:
            self.given_up += self._starts[1] - self._ends[0] - 1
            del self._starts[1], self._ends[0]

    def gaps(self) -> list[Gap]:
        """Return the gaps between the ranges."""
        return [Gap(end + 1, start - 1) for end, start in zip(self._ends, self._starts[1:], strict=False)]

    @property
    def last(self) -> int | None:
        return self._ends[-1] if self._ends else None


@dataclass(frozen=True, slots=True)
class StreamReport:
    """What a detector found about one producer in one queue."""

    producer_id: str
    queue: Queue
    seen: int
    last: int | None
    missing: int
    gaps: tuple[Gap, ...]
    repeated: int
    late: int

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.repeated or self.late)

    def sentence(self) -> str:
        """Describe the findings for a person."""
        of = f"Producer {self.producer_id} in {self.queue}: {_count(self.seen, 'message')} seen"
        if self.is_clean:
            return f"{of}, each once and in order."
        shown = ", ".join(map(str, self.gaps[:GAPS_IN_A_SENTENCE]))
        more = len(self.gaps) - GAPS_IN_A_SENTENCE
        if more > 0:
            shown += f" and {_count(more, 'more gap')}"
        which = f" ({shown})" if shown else ""
        return f"{of}; missing: {self.missing}{which}, repeated: {self.repeated}, late: {self.late}."


@dataclass(frozen=True, slots=True)
class LossReport:
    """What a detector found, stream by stream."""

    streams: tuple[StreamReport, ...]
    unstamped: int  # messages without a stamp, or with a malformed one
    streams_forgotten: int  # dropped beyond the bound of streams; this report lacks their findings

    @property
    def missing(self) -> int:
        return sum(stream.missing for stream in self.streams)

    @property
    def repeated(self) -> int:
        return sum(stream.repeated for stream in self.streams)

    @property
    def late(self) -> int:
        return sum(stream.late for stream in self.streams)

    @property
    def is_clean(self) -> bool:
        return not self.streams_forgotten and all(stream.is_clean for stream in self.streams)

    def sentences(self) -> list[str]:
        """Describe the streams with findings for a person, or that there are none."""
        sentences = [stream.sentence() for stream in self.streams if not stream.is_clean]
        if not sentences:
            seen = sum(stream.seen for stream in self.streams)
            sentences.append(f"{_count(seen, 'message')} of {_count(len(self.streams), 'stream')} seen, each once and in order.")
        if self.unstamped:
            sentences.append(f"{_count(self.unstamped, 'message')} had no valid stamp and could not be checked.")
        if self.streams_forgotten:
            sentences.append(
                f"The detector dropped {_count(self.streams_forgotten, 'stream')} beyond its bound; their findings are not here."
            )
        return sentences

    def as_dict(self) -> dict[str, Any]:
        """Return the report for programs, as plain numbers, strings, lists and dicts."""
        streams = []
        for stream in self.streams:
            plain = asdict(stream)
            plain["queue"] = stream.queue._asdict()
            plain["gaps"] = [[gap.first, gap.last] for gap in stream.gaps]
            streams.append(plain)
        totals = {"missing": self.missing, "repeated": self.repeated, "late": self.late}
        return {**totals, "unstamped": self.unstamped, "streams_forgotten": self.streams_forgotten, "streams": streams}


class LossDetector:
    """Detects missing, repeated and late messages from their sequence stamps."""

    def __init__(self, *, begins_at: int | None = None, ranges_max: int = RANGES_MAX, streams_max: int = STREAMS_MAX) -> None:
        """`begins_at` is the number of each producer's first message, for a detector that sees every message."""
        assert ranges_max >= 1
        self._begins_at = begins_at
        self._ranges_max = ranges_max
        self._streams_max = streams_max
        self._streams: OrderedDict[tuple[str, Queue], NumberStream] = OrderedDict()  # the least recently seen first
        self._unstamped = 0
        self._forgotten = 0

    def record(self, queue: Queue, properties: Mapping[str, str]) -> None:
        """Record a message of this queue, by its properties."""
        producer_id = properties.get(PRODUCER_ID)
        number = properties.get(SEQUENCE, "")
        if not producer_id or not (number.isascii() and number.isdecimal()) or len(number) > 19:
            self._unstamped += 1
        else:
            self.record_number(producer_id, queue, int(number))

    def record_number(self, producer_id: str, queue: Queue, number: int) -> None:
        """Record a message by its producer's id and its sequence number."""
        key = (producer_id, queue)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = NumberStream(self._begins_at)
            if len(self._streams) > self._streams_max:
                self._streams.popitem(last=False)
                self._forgotten += 1
        else:
            self._streams.move_to_end(key)
        stream.record(number)
        stream.limit_ranges(self._ranges_max)

    def report(self) -> LossReport:
        """Return the findings so far."""
        streams = []
        for (producer_id, queue), stream in sorted(self._streams.items()):
            gaps = tuple(stream.gaps())
            missing = sum(gap.last - gap.first + 1 for gap in gaps) + stream.given_up
            streams.append(
                StreamReport(producer_id, queue, stream.seen, stream.last, missing, gaps, stream.repeated, stream.late)
            )
        return LossReport(tuple(streams), self._unstamped, self._forgotten)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

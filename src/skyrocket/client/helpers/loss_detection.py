"""What became of a producer's messages: gaps, repeats and disorder, from the numbers that producers stamp on them.

A stamp (`sequence`) says which producer, and its how-manieth message to this queue. A consumer, or an audit over a store, shows
each message to a detector, which keeps what it saw as ranges:

    saw 1 2 3 . 5 6 6 4 . . 9        ranges [1-6] [9-9]        missing 7-8, one repeat, one late (the 4, after 6)

A number is *missing* while later ones were seen; *late* when it comes after a later one, which is disorder and no loss;
*repeated* when it was seen before. Counting begins at the first number that is seen, or earlier ones that come late, unless the
detector is told where each producer begins. Whatever comes after the last number seen cannot be missed.

Show it messages as they lie in the queue they were sent to. One that comes by a retry topic has the stamp of another queue.
And a gap need not be a loss: a number is missing too when its producer knows that the send failed, or then chose another queue.

Memory is bounded: of each stream (one producer, one queue) so many ranges, and so many streams. Where a range is over the bound,
the oldest gap is given up: it counts as lost for good, and its numbers would be called repeats if they came.
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
    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


class Stream:
    """The numbers of one producer in one queue."""

    __slots__ = ("_ends", "_starts", "given_up", "late", "repeated", "seen")

    def __init__(self, begins_at: int | None = None) -> None:
        self._starts: list[int] = []  # ranges seen, ascending and apart; the first of each
        self._ends: list[int] = []  # and the last
        if begins_at is not None:
            self._starts.append(begins_at - 1)  # as if the one before the first had come
            self._ends.append(begins_at - 1)
        self.seen = 0
        self.repeated = 0
        self.late = 0
        self.given_up = 0  # missing numbers of gaps that there was no room to remember

    def saw(self, number: int) -> None:
        starts, ends = self._starts, self._ends
        if ends and number == ends[-1] + 1:  # nearly always
            ends[-1] = number
            self.seen += 1
            return
        at = bisect_right(starts, number) - 1  # the range that could hold it
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

    def keep_within(self, ranges_max: int) -> None:
        while len(self._starts) > ranges_max:
            self.given_up += self._starts[1] - self._ends[0] - 1
            del self._starts[1], self._ends[0]

    def gaps(self) -> list[Gap]:
        return [Gap(end + 1, start - 1) for end, start in zip(self._ends, self._starts[1:], strict=False)]

    @property
    def last(self) -> int | None:
        return self._ends[-1] if self._ends else None


@dataclass(frozen=True, slots=True)
class StreamReport:
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
        of = f"Of producer {self.producer_id} in {self.queue}, {_count(self.seen, 'message')} came"
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
    streams: tuple[StreamReport, ...]
    unstamped: int  # messages without a stamp, or with one that cannot be read
    streams_forgotten: int  # beyond the bound; what was found in them is not in this report

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
        """What a person wants to know: the streams with findings, or that there are none."""
        told = [stream.sentence() for stream in self.streams if not stream.is_clean]
        if not told:
            seen = sum(stream.seen for stream in self.streams)
            told.append(f"{_count(seen, 'message')} of {_count(len(self.streams), 'stream')} came, each once and in order.")
        if self.unstamped:
            told.append(f"{_count(self.unstamped, 'message')} without a stamp that can be read could not be looked at.")
        if self.streams_forgotten:
            told.append(
                f"There was no room to remember {_count(self.streams_forgotten, 'stream')}; of these nothing is said here."
            )
        return told

    def as_dict(self) -> dict[str, Any]:
        """For programs: numbers, texts, lists and dicts alone."""
        streams = []
        for stream in self.streams:
            plain = asdict(stream)
            plain["queue"] = stream.queue._asdict()
            plain["gaps"] = [[gap.first, gap.last] for gap in stream.gaps]
            streams.append(plain)
        totals = {"missing": self.missing, "repeated": self.repeated, "late": self.late}
        return {**totals, "unstamped": self.unstamped, "streams_forgotten": self.streams_forgotten, "streams": streams}


class LossDetector:
    def __init__(self, *, begins_at: int | None = None, ranges_max: int = RANGES_MAX, streams_max: int = STREAMS_MAX) -> None:
        """`begins_at`: the number of each producer's first message, when the detector is to see all from the beginning."""
        assert ranges_max >= 1
        self._begins_at = begins_at
        self._ranges_max = ranges_max
        self._streams_max = streams_max
        self._streams: OrderedDict[tuple[str, Queue], Stream] = OrderedDict()  # the one seen longest ago first
        self._unstamped = 0
        self._forgotten = 0

    def saw(self, queue: Queue, properties: Mapping[str, str]) -> None:
        """A message of this queue, by its properties."""
        producer_id = properties.get(PRODUCER_ID)
        number = properties.get(SEQUENCE, "")
        if not producer_id or not (number.isascii() and number.isdecimal()) or len(number) > 19:
            self._unstamped += 1
        else:
            self.saw_number(producer_id, queue, int(number))

    def saw_number(self, producer_id: str, queue: Queue, number: int) -> None:
        key = (producer_id, queue)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = Stream(self._begins_at)
            if len(self._streams) > self._streams_max:
                self._streams.popitem(last=False)
                self._forgotten += 1
        else:
            self._streams.move_to_end(key)
        stream.saw(number)
        stream.keep_within(self._ranges_max)

    def report(self) -> LossReport:
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

"""Decisions about half messages, without store, sockets or clock.

    PendingOps      half messages that have ended, until an op message names them in the op queue
    HalfCopies      half messages that were stored again: all offsets of one message, so that one end ends it
    CheckRound      one walk along the half queue: it passes what has ended, checks the producer of what is old enough, and
                    stops at what is too young

A round reads op messages only as far as it needs to: before it checks a half message that is old enough, it looks for that
message in all op messages. It keeps one byte for each half message.

     half queue    … 17  18  19  20  21  22  23 …        progress: 17; 18, 19 and 21 have ended
     op queue      … [18,19,] [21,] …                    17 is old: check it, store it again as 24, go on with 20
                                                         23 is young: stop; progress: 23, and both op messages are done
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from skyrocket.broker.transactions.records import HalfMessage, number

HALVES_PER_ROUND_MAX: Final = 1_000_000
OPS_PER_ROUND_MAX: Final = 4_000_000  # op messages that a round finds to be done; later ones are found by a later round
COPIES_MAX: Final = 100_000  # half messages that were stored again and are remembered to be one message
_HOUR_MS = 3_600_000


class CheckRules(NamedTuple):
    """What the settings say about checks."""

    timeout_ms: int  # a younger half message is not checked
    checks_max: int
    reserved_ms: int  # an older half message is given up, as its log file is deleted soon

    @classmethod
    def of(cls, timeout_ms: int, checks_max: int, reserved_hours: int) -> CheckRules:
        return cls(timeout_ms, checks_max, reserved_hours * _HOUR_MS)


class CheckDecision(Enum):
    """What to do with a half message that no op message names."""

    WAIT = auto()  # it is too young, and so are those behind it
    CHECK = auto()  # ask its producer, and store it again behind the others
    LATER = auto()  # it is immune for now: store it again
    ENDED = auto()  # it ended under the offset that its producer knows
    GIVE_UP = auto()  # checked too often, or too old


class CheckProgress(NamedTuple):
    """Everything before these offsets of the two queues is done."""

    half: int
    op: int


# --- ends that no op message names yet


class PendingOps:
    """Offsets of ended half messages. They wait until they fill an op message, or until the interval is over.

    So their number is bounded by what one op message can name.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._size_bytes = 0
        self._since_ms = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def fill_up(self, offsets: list[int], size_bytes_max: int) -> list[int] | None:
        """Return the offsets for an op message that these offsets would fill, or None while there is room for them."""
        if self._size_bytes + _text_bytes_max(offsets) < size_bytes_max:
            return None
        return self._offsets + offsets

    def add(self, offsets: list[int], now_ms: int) -> None:
        if not self._offsets:
            self._since_ms = now_ms
        self._offsets += offsets
        self._size_bytes += _text_bytes_max(offsets)

    def due_ms(self, now_ms: int, interval_ms: int) -> int | None:
        """Return when the op message is due. It is never late when the clock was set back since the first offset came."""
        return min(self._since_ms, now_ms) + interval_ms if self._offsets else None

    def waiting(self) -> list[int]:
        return list(self._offsets)

    def clear(self) -> None:
        """Drop all offsets: an op message names them now."""
        self._offsets.clear()
        self._size_bytes = 0


def _text_bytes_max(offsets: list[int]) -> int:
    """Return the size of these offsets in an op message, if all are as long as the greatest, each with a separator."""
    return (len(str(max(offsets))) + 1) * len(offsets) if offsets else 0


# --- half messages that were stored again


class HalfCopies:
    """Which half messages are copies of one message.

    A producer may end a transaction under the offset before the copy, and again under the copy's offset when it is checked. That
    is one message with one end. The oldest copies are forgotten first.
    """

    def __init__(self, copies_max: int = COPIES_MAX) -> None:
        self._copies_max = copies_max
        self._next: dict[int, int] = {}  # from an offset to that of the copy made of it
        self._is_over: dict[int, bool] = {}  # by the offset of a copy

    def clear(self) -> None:
        self._next.clear()
        self._is_over.clear()

    def add(self, offset: int, copy_offset: int) -> None:
        self._next[offset] = copy_offset
        self._is_over[copy_offset] = False
        for table in (self._next, self._is_over):
            if len(table) > self._copies_max:
                del table[next(iter(table))]

    @property
    def is_empty(self) -> bool:
        return not self._next and not self._is_over

    def knows(self, offset: int) -> bool:
        """Whether the offset is of a copy, or of a message that was copied."""
        return offset in self._next or offset in self._is_over

    def newest(self, offset: int) -> int:
        while offset in self._next:
            offset = self._next[offset]
        return offset

    def is_over(self, offset: int) -> bool:
        """Whether the message is known to have ended, under this offset or another one."""
        return bool(self._is_over) and self._is_over.get(self.newest(offset), False)

    def offsets_of(self, offsets: list[int]) -> list[int]:
        """Return the offsets that end together with these: their own, and those of the newest copies."""
        if not self._next:
            return offsets
        return [one for offset in offsets for one in dict.fromkeys((offset, self.newest(offset)))]

    def record_ended(self, offsets: Iterable[int]) -> None:
        if self._is_over:
            for offset in offsets:
                if offset in self._is_over:
                    self._is_over[offset] = True


# --- a round


class CheckRound:
    def __init__(self, rules: CheckRules, started_ms: int, begin: CheckProgress, half_end: int) -> None:
        """Walk along the half messages before `half_end` that were stored before `started_ms`."""
        self._rules = rules
        self._started_ms = started_ms
        self._begin = begin
        self._ended = bytearray(max(0, min(half_end - begin.half, HALVES_PER_ROUND_MAX)))
        self._at = 0  # how many half messages from the beginning are done
        self._doubtful: dict[int, int] = {}  # half messages whose end is in doubt, and where the first op message lies
        self._op_last_halves = array("q")  # the greatest half offset that each op message names
        self.next_op = begin.op  # where to read on in the op queue
        self.is_over = False

    # --- half messages that have ended

    def record_ended(self, offsets: Iterable[int]) -> int:
        """Mark these half messages as ended. Return the greatest offset, or -1."""
        begin, end, last = self._begin.half, self._begin.half + len(self._ended), -1
        marks = self._ended
        for offset in offsets:
            last = max(last, offset)
            if begin <= offset < end:
                marks[offset - begin] = 1
        return last

    def add_op(self, offset: int, halves: Iterable[int], doubtful_place: int | None = None) -> None:
        """Add the op message at `offset`, which names these half messages. Skipped offsets (damaged op messages) name none.

        An op message that may be in doubt comes with its place in the log, and does not end them yet.
        """
        last = self.record_ended(halves) if doubtful_place is None else self._doubt(halves, doubtful_place)
        while self.next_op < offset:
            self._add_op(-1)
        self._add_op(last)

    def _doubt(self, halves: Iterable[int], op_place: int) -> int:
        """Note that the ends of these half messages are in doubt. Return the greatest offset, or -1."""
        begin, end, last = self._begin.half, self._begin.half + len(self._ended), -1
        for offset in halves:
            last = max(last, offset)
            if begin <= offset < end:
                self._doubtful.setdefault(offset, op_place)
        return last

    @property
    def has_doubts(self) -> bool:
        return bool(self._doubtful)

    def doubtful_op(self, half: int) -> int | None:
        """Return where the first op message lies that names this half message and is in doubt; None when there is none."""
        return self._doubtful.get(half)

    def skip_ops(self, next_op: int) -> None:
        """Go on to `next_op`: there are no further op messages before it."""
        while self.next_op < next_op:
            self._add_op(-1)

    def _add_op(self, last_half: int) -> None:
        if len(self._op_last_halves) < OPS_PER_ROUND_MAX:
            self._op_last_halves.append(last_half)
        self.next_op += 1

    # --- half messages that have not ended

    def pending(self, most: int) -> tuple[int, int]:
        """Return the next offset that is not known to have ended, and how many neighbours are like it: 0 at the end."""
        at = self._ended.find(0, self._at)
        self._at = len(self._ended) if at < 0 else at
        stop = self._ended.find(1, self._at, self._at + most)
        if stop < 0:
            stop = min(self._at + most, len(self._ended))
        return self._begin.half + self._at, stop - self._at

    def decide(self, half: HalfMessage, now_ms: int) -> CheckDecision:
        """Decide about a half message that no op message names. WAIT is right even before all op messages were read."""
        rules, record = self._rules, half.record
        if record.store_timestamp >= self._started_ms:
            return CheckDecision.WAIT
        age_ms = now_ms - record.born_timestamp  # by the producer's clock; if that is ahead, it is checked at once, as by Apache
        if half.check_times >= rules.checks_max or age_ms > rules.reserved_ms:
            return CheckDecision.GIVE_UP
        if half.immunity is not None:
            if age_ms <= immunity_ms(half.immunity, rules.timeout_ms):
                return CheckDecision.ENDED if self._has_ended(half.original_offset) else CheckDecision.LATER
        elif 0 <= age_ms <= rules.timeout_ms:
            return CheckDecision.WAIT
        return CheckDecision.CHECK

    def _has_ended(self, offset: int) -> bool:
        at = offset - self._begin.half
        return 0 <= at < len(self._ended) and bool(self._ended[at])

    def skip_halves(self, next_half: int) -> None:
        """Go on to `next_half`: everything before it is done."""
        self._at = max(self._at, min(next_half - self._begin.half, len(self._ended)))

    @property
    def progress(self) -> CheckProgress:
        """How far both queues are done.

        An op message is done when all half messages that it names and all op messages before it are done.
        """
        half = self._begin.half + self._at
        done = next((at for at, last in enumerate(self._op_last_halves) if last >= half), len(self._op_last_halves))
        return CheckProgress(half, self._begin.op + done)


def immunity_ms(seconds: str, timeout_ms: int) -> int:
    """Return how long the producer of a message is immune against checks, from the property's text."""
    asked_for = number(seconds)
    return timeout_ms if asked_for == -1 else asked_for * 1000


def end_is_too_late(immunity: str | None, age_ms: int, from_check: bool, timeout_ms: int) -> bool:
    """Whether an end comes after the immunity that its producer asked for. Then the producer must wait for a check."""
    if from_check or not immunity:
        return False
    return age_ms > max(timeout_ms, number(immunity) * 1000)

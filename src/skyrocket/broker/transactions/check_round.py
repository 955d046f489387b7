"""What becomes of half messages, decided without store, sockets or clock.

    PendingOps      half messages that have ended, until an op message says so in the op queue
    Copies          half messages that were stored again: all offsets of one message, so that one end ends it
    CheckRound      one walk along the half queue: what has ended is passed, what is too young ends the walk, and about
                    what is old enough the producer is asked

A round reads op messages only as far as it has to: a half message that is old enough to be asked about is looked for in all of
them first. What it keeps of each half message is one byte.

     half queue    … 17  18  19  20  21  22  23 …        progress: 17; 18, 19 and 21 have ended
     op queue      … [18,19,] [21,] …                    17 is old: ask, store it again as 24, go on with 20
                                                         23 is young: stop; progress: 23, and both op messages are done
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from skyrocket.broker.transactions.records import Half, number

HALVES_PER_ROUND_MAX: Final = 1_000_000
OPS_PER_ROUND_MAX: Final = 4_000_000  # whose being done is noticed; those beyond are noticed in a later round
COPIES_MAX: Final = 100_000  # half messages that were stored again and are remembered to be the same
_HOUR_MS = 3_600_000


class Rules(NamedTuple):
    """What the settings say."""

    timeout_ms: int  # a half message younger than this is nobody's concern
    checks_max: int
    reserved_ms: int  # an older one would soon be gone with its file

    @classmethod
    def of(cls, timeout_ms: int, checks_max: int, reserved_hours: int) -> Rules:
        return cls(timeout_ms, checks_max, reserved_hours * _HOUR_MS)


class Verdict(Enum):
    """About a half message that no op message names."""

    WAIT = auto()  # it is too young, and so are those behind it
    ASK = auto()  # its producer, and store it again behind the others
    LATER = auto()  # its producer wants not to be asked yet: store it again
    ENDED = auto()  # under the offset that its producer knows it by
    GIVE_UP = auto()  # asked too often, or too old


class Progress(NamedTuple):
    """Everything before these offsets of the two queues is done with."""

    half: int
    op: int


# --- ends that are not in the op queue yet


class PendingOps:
    """Offsets wait until they fill an op message, or for so long. So there are never more of them than one op message names."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._size_bytes = 0
        self._since_ms = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def filled_by(self, offsets: list[int], size_bytes_max: int) -> list[int] | None:
        """What the op message names that these would fill; None when there is room for them yet."""
        if self._size_bytes + _text_bytes_max(offsets) < size_bytes_max:
            return None
        return self._offsets + offsets

    def add(self, offsets: list[int], now_ms: int) -> None:
        if not self._offsets:
            self._since_ms = now_ms
        self._offsets += offsets
        self._size_bytes += _text_bytes_max(offsets)

    def due_ms(self, now_ms: int, interval_ms: int) -> int | None:
        """When they are to be in the op queue, also if the clock was set back since the first of them came."""
        return min(self._since_ms, now_ms) + interval_ms if self._offsets else None

    def waiting(self) -> list[int]:
        return list(self._offsets)

    def written(self) -> None:
        """All of them are in the op queue."""
        self._offsets.clear()
        self._size_bytes = 0


def _text_bytes_max(offsets: list[int]) -> int:
    """What they take in an op message if all are as long as the greatest, each with one byte behind it."""
    return (len(str(max(offsets))) + 1) * len(offsets) if offsets else 0


# --- half messages that were stored again


class Copies:
    """A producer may end a transaction under an offset that it was told before the message was stored again, and again under the
    new one when it is asked: that is one message, with one end. The oldest are forgotten first."""

    def __init__(self, most: int = COPIES_MAX) -> None:
        self._most = most
        self._next: dict[int, int] = {}  # from an offset to that of the copy made of it
        self._is_over: dict[int, bool] = {}  # of copies

    def copied(self, offset: int, copy_offset: int) -> None:
        self._next[offset] = copy_offset
        self._is_over[copy_offset] = False
        for table in (self._next, self._is_over):
            if len(table) > self._most:
                del table[next(iter(table))]

    @property
    def is_empty(self) -> bool:
        return not self._next and not self._is_over

    def knows(self, offset: int) -> bool:
        """Whether there is anything to say about it."""
        return offset in self._next or offset in self._is_over

    def newest(self, offset: int) -> int:
        while offset in self._next:
            offset = self._next[offset]
        return offset

    def is_over(self, offset: int) -> bool:
        """Whether the message is known to have ended under another of its offsets, or this one."""
        return bool(self._is_over) and self._is_over.get(self.newest(offset), False)

    def offsets_of(self, offsets: list[int]) -> list[int]:
        """Those that end with them: their own, and those of the newest copies."""
        if not self._next:
            return offsets
        return [one for offset in offsets for one in dict.fromkeys((offset, self.newest(offset)))]

    def ended(self, offsets: Iterable[int]) -> None:
        if self._is_over:
            for offset in offsets:
                if offset in self._is_over:
                    self._is_over[offset] = True


# --- a round


class CheckRound:
    def __init__(self, rules: Rules, started_ms: int, begin: Progress, half_end: int) -> None:
        """Half messages before `half_end` are looked at, those stored since `started_ms` excepted."""
        self._rules = rules
        self._started_ms = started_ms
        self._begin = begin
        self._ended = bytearray(max(0, min(half_end - begin.half, HALVES_PER_ROUND_MAX)))
        self._at = 0  # half messages from the beginning that are done with
        self._op_last_halves = array("q")  # the last half message that each op message names
        self.next_op = begin.op  # where to read on in the op queue
        self.is_over = False

    # --- what has ended

    def ended(self, offsets: Iterable[int]) -> int:
        """These have. The last of them."""
        begin, end, last = self._begin.half, self._begin.half + len(self._ended), -1
        marks = self._ended
        for offset in offsets:
            last = max(last, offset)
            if begin <= offset < end:
                marks[offset - begin] = 1
        return last

    def learn(self, offset: int, halves: Iterable[int]) -> None:
        """An op message at `offset` names these. Offsets that were passed over (of damaged messages) name none."""
        last = self.ended(halves)
        while self.next_op < offset:
            self._learned(-1)
        self._learned(last)

    def passed_ops(self, next_op: int) -> None:
        """There is none before this that was not learned."""
        while self.next_op < next_op:
            self._learned(-1)

    def _learned(self, last_half: int) -> None:
        if len(self._op_last_halves) < OPS_PER_ROUND_MAX:
            self._op_last_halves.append(last_half)
        self.next_op += 1

    # --- what has not

    def pending(self, most: int) -> tuple[int, int]:
        """Where the next half message is that is not known to have ended, and how many neighbours are like it; 0 at the end."""
        at = self._ended.find(0, self._at)
        self._at = len(self._ended) if at < 0 else at
        stop = self._ended.find(1, self._at, self._at + most)
        if stop < 0:
            stop = min(self._at + most, len(self._ended))
        return self._begin.half + self._at, stop - self._at

    def judge(self, half: Half, now_ms: int) -> Verdict:
        """What to do with one that no op message names. WAIT can be said before all of those were read."""
        rules, record = self._rules, half.record
        if record.store_timestamp >= self._started_ms:
            return Verdict.WAIT
        age_ms = now_ms - record.born_timestamp  # by the producer's clock; one ahead of ours is asked at once, as Apache does
        if half.check_times >= rules.checks_max or age_ms > rules.reserved_ms:
            return Verdict.GIVE_UP
        if half.immunity is not None:
            if age_ms <= immunity_ms(half.immunity, rules.timeout_ms):
                return Verdict.ENDED if self._has_ended(half.known_as) else Verdict.LATER
        elif 0 <= age_ms <= rules.timeout_ms:
            return Verdict.WAIT
        return Verdict.ASK

    def _has_ended(self, offset: int) -> bool:
        at = offset - self._begin.half
        return 0 <= at < len(self._ended) and bool(self._ended[at])

    def passed(self, next_half: int) -> None:
        """Everything before this is done with."""
        self._at = max(self._at, min(next_half - self._begin.half, len(self._ended)))

    @property
    def progress(self) -> Progress:
        """An op message is done when all that it names are, and all op messages before it."""
        half = self._begin.half + self._at
        done = next((at for at, last in enumerate(self._op_last_halves) if last >= half), len(self._op_last_halves))
        return Progress(half, self._begin.op + done)


def immunity_ms(seconds: str, timeout_ms: int) -> int:
    """For how long the producer of a message is not asked."""
    told = number(seconds)
    return timeout_ms if told == -1 else told * 1000


def end_is_too_late(immunity: str | None, age_ms: int, from_check: bool, timeout_ms: int) -> bool:
    """A producer that asked for immunity must end its transaction in that time, or wait to be asked."""
    if from_check or not immunity:
        return False
    return age_ms > max(timeout_ms, number(immunity) * 1000)

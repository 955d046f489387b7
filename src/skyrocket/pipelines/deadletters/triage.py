"""Groups dead letters by cause, original topic and age, and keeps samples. Pure; memory is bounded.

A cause is what letters have in common: their original topic, how often they were retried, and the reason that a property gives.
Numbers and ids inside a reason are replaced, so that "order 17 not found" and "order 18 not found" are one cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skyrocket.pipelines.deadletters.letters import DeadLetter

CAUSES_MAX: Final = 1_000  # kinds of causes that are kept apart; further ones are counted together
SAMPLES_MAX: Final = 3  # letters shown for each cause
REASON_CHARACTERS_MAX: Final = 200
OTHER: Final = "(other causes)"
NO_REASON: Final = "(no property tells a reason)"

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
AGES: Final = (
    ("< 1 min", _MINUTE_MS),
    ("< 10 min", 10 * _MINUTE_MS),
    ("< 1 h", _HOUR_MS),
    ("< 6 h", 6 * _HOUR_MS),
    ("< 1 d", _DAY_MS),
    ("< 3 d", 3 * _DAY_MS),
    ("< 7 d", 7 * _DAY_MS),
)
OLDEST_AGE: Final = "≥ 7 d"
AGE_LABELS: Final = (*(label for label, _ in AGES), OLDEST_AGE)

_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+(?:[.:-]\d+)*")


class CauseKey(NamedTuple):
    """What the letters of one cause have in common."""

    origin_topic: str
    retries: int
    reason: str


@dataclass(slots=True)
class CauseCount:
    """How many letters have a cause, when they died, and some of them."""

    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    samples: list[DeadLetter] = field(default_factory=list)

    def add(self, letter: DeadLetter) -> None:
        self.first_ms = min(self.first_ms, letter.died_ms) if self.count else letter.died_ms
        self.last_ms = max(self.last_ms, letter.died_ms)
        self.count += 1
        if len(self.samples) < SAMPLES_MAX:
            self.samples.append(letter)


def plain_reason(text: str) -> str:
    """Return a reason without what varies from message to message, and its first line only."""
    first_line = text.strip().split("\n", 1)[0][:REASON_CHARACTERS_MAX]
    return _VARYING.sub("#", first_line) or NO_REASON


def age_label(age_ms: int) -> str:
    """Return the name of the age to which a letter belongs."""
    return next((label for label, limit_ms in AGES if age_ms < limit_ms), OLDEST_AGE)


class Triage:
    """Counts letters, one after another."""

    def __init__(self, now_ms: int, cause_properties: tuple[str, ...] = (), causes_max: int = CAUSES_MAX) -> None:
        self._now_ms = now_ms
        self._cause_properties = cause_properties
        self._causes_max = causes_max
        self.causes: dict[CauseKey, CauseCount] = {}
        self.by_age: Counter[str] = Counter()
        self.by_topic: Counter[tuple[str, str]] = Counter()  # dead-letter topic, original topic
        self.count = 0
        self.body_bytes = 0

    def add_all(self, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            self.add(letter)

    def add(self, letter: DeadLetter) -> None:
        """Count a letter."""
        self.count += 1
        self.body_bytes += len(letter.body)
        self.by_age[age_label(self._now_ms - letter.died_ms)] += 1
        topic = (letter.topic, letter.origin_topic)
        if topic in self.by_topic or len(self.by_topic) < self._causes_max:
            self.by_topic[topic] += 1
        else:
            self.by_topic[letter.topic, OTHER] += 1
        reason = letter.cause(self._cause_properties)
        key = CauseKey(letter.origin_topic, letter.retries, plain_reason(reason) if reason else NO_REASON)
        if key not in self.causes and len(self.causes) >= self._causes_max:
            key = CauseKey(OTHER, 0, OTHER)
        self.causes.setdefault(key, CauseCount()).add(letter)

    def most_frequent(self) -> list[tuple[CauseKey, CauseCount]]:
        """Return the causes, the most frequent first."""
        return sorted(self.causes.items(), key=lambda item: (-item[1].count, item[0]))

"""Chooses dead letters: by id, key, tag, original topic and time. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocket.pipelines.deadletters.letters import DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """What to choose. Kinds of conditions must all hold; of the values of one kind, one must. None chooses every letter."""

    ids: frozenset[str] = frozenset()  # message ids, or ids of letters
    keys: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()  # original topics
    since_ms: int | None = None  # died at this time or later
    until_ms: int | None = None  # died before this time

    @property
    def is_everything(self) -> bool:
        has_values = self.ids or self.keys or self.tags or self.topics
        return not has_values and self.since_ms is None and self.until_ms is None

    def chooses(self, letter: DeadLetter) -> bool:
        """Whether a letter is chosen."""
        return (
            (not self.ids or not self.ids.isdisjoint((letter.message_id, letter.letter_id, letter.place)))
            and (not self.keys or not self.keys.isdisjoint(letter.keys))
            and (not self.tags or letter.tag in self.tags)
            and (not self.topics or letter.origin_topic in self.topics)
            and (self.since_ms is None or letter.died_ms >= self.since_ms)
            and (self.until_ms is None or letter.died_ms < self.until_ms)
        )

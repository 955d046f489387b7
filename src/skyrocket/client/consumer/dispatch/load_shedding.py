"""Load shedding: which messages a consumer skips when it is behind, and how many it has skipped. Pure.

A skipped message counts as consumed: its offset is committed, and it is not delivered again. Use it for work that is worth
nothing when it is late, such as a push message about something that has passed.

    skip_when_behind=1_000                    more than 1,000 newer messages were in the queue when it was pulled
    skip_older_than=timedelta(seconds=30)     the broker stored it more than 30 s before a handler could begin with it

The age counts from the time at which the broker stored the message, so the delay of a delayed or retried message does not count.
It compares the broker's clock with this machine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received


class Skipped(NamedTuple):
    """How many messages of a topic a consumer has skipped, by reason."""

    when_behind: int = 0
    too_old: int = 0

    @property
    def total(self) -> int:
        return self.when_behind + self.too_old


class LoadShedding:
    """Selects the messages that are worth handling, and counts the others."""

    def __init__(self, *, when_behind: int | None = None, older_than_ms: int | None = None) -> None:
        """None: no such bound."""
        self._when_behind = when_behind
        self._older_than_ms = older_than_ms
        self._reported: dict[str, int] = {}
        self.skipped: dict[str, Skipped] = {}

    @property
    def depends_on_time(self) -> bool:
        """Whether a message that is kept now may have to be skipped later."""
        return self._older_than_ms is not None

    def select(self, messages: Sequence[Received], wall_ms: int) -> tuple[list[Received], list[Received]]:
        """Return the messages to handle and those to skip, which are counted. `wall_ms` is the time since 1970."""
        kept: list[Received] = []
        dropped: list[Received] = []
        for message in messages:
            if self._when_behind is not None and message.behind > self._when_behind:
                reason = Skipped(when_behind=1)
            elif self._older_than_ms is not None and wall_ms - message.stored_ms > self._older_than_ms:
                reason = Skipped(too_old=1)
            else:
                kept.append(message)
                continue
            dropped.append(message)
            before = self.skipped.get(message.topic, Skipped())
            self.skipped[message.topic] = Skipped(before.when_behind + reason.when_behind, before.too_old + reason.too_old)
        return kept, dropped

    def take_changes(self) -> dict[str, int]:
        """Return how many messages of each topic were skipped since the last call, for a log line."""
        changes = {topic: count.total - self._reported.get(topic, 0) for topic, count in self.skipped.items()}
        self._reported = {topic: count.total for topic, count in self.skipped.items()}
        return {topic: count for topic, count in changes.items() if count}


def make_shedding(when_behind: int | None, older_than: timedelta | int | None) -> LoadShedding | None:
    """Build the load shedding from a consumer's options; None: no message is skipped. Raises ConfigurationError."""
    if when_behind is None and older_than is None:
        return None
    if when_behind is not None and when_behind < 0:
        raise ConfigurationError(f"skip_when_behind must not be negative, but is {when_behind}.")
    older_than_ms = int(older_than.total_seconds() * 1000) if isinstance(older_than, timedelta) else older_than
    if older_than_ms is not None and older_than_ms <= 0:
        raise ConfigurationError(f"skip_older_than must be a positive timedelta or number of milliseconds, not {older_than!r}.")
    return LoadShedding(when_behind=when_behind, older_than_ms=older_than_ms)

"""Decides how damaged entries are repaired: which ones are asked for next, whom to believe, when to ask again, what to say.

    damaged, committed ──▶ next_round ──▶ GET to every other node ──▶ conclude ──▶ RepairVerdict

Every node that can be reached is asked. What they answer must be equal. If it is not, the checksum that this node kept of the
record decides; without one, nothing is written.

| answers                                        | verdict                                                     |
|------------------------------------------------|-------------------------------------------------------------|
| entries, and all that came are equal           | RESTORE                                                     |
| different ones, one of which fits the checksum | RESTORE that one, and name the nodes that have another      |
| different ones otherwise                       | DISPUTED: give up, and ask again later                      |
| all nodes answer that they do not have it      | LOST: give up, and ask again later                          |
| only "not the leader", and this node leads     | HAND_OVER: Apache's nodes answer only while they lead       |
| nothing                                        | WAIT: ask again, at first soon                              |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from skyrocket.store.ledger.index_ranges import IndexRange

ENTRIES_MAX: Final = 500  # asked for at once
BYTES_MAX: Final = 1024 * 1024  # likewise
RETRY_MS_MIN: Final = 500
RETRY_MS_MAX: Final = 60_000
LOST_RETRY_MS: Final = 600_000  # a node that was replaced may have it by then
HAND_OVER_MS: Final = 60_000  # between two
ROUNDS_BEFORE_LEADING: Final = 5  # without success; then a leader goes on without the entries
_CRCS: Final = slice(36, 44)  # of an entry's header; nobody fills them in


class NoEntry(Enum):
    """Why a node has sent no entry."""

    MISSING = "does not have it"
    NOT_LEADER = "answers only while it leads"
    SILENT = "does not answer"


Answer = list[bytes] | NoEntry


class RepairAction(Enum):
    RESTORE = "RESTORE"
    WAIT = "WAIT"
    LOST = "LOST"
    DISPUTED = "DISPUTED"
    HAND_OVER = "HAND_OVER"


class RepairVerdict(NamedTuple):
    action: RepairAction
    entries: list[bytes]
    sources: tuple[str, ...]  # the nodes that have them
    sentence: str = ""  # for the log; none if it was said before
    hand_over_to: tuple[str, ...] = ()


@dataclass(slots=True)
class Attempts:
    """What was tried for a damaged range, by its first entry."""

    rounds: int = 0  # without success
    retry_at_ms: float = 0
    said: set[RepairAction] = field(default_factory=set)


class RepairPlan:
    def __init__(self, peers: Sequence[str]) -> None:
        self._peers = tuple(peers)
        self._attempts: dict[int, Attempts] = {}
        self._handed_over_ms = float("-inf")

    def next_round(self, damaged: Sequence[IndexRange], committed: int, now_ms: float) -> IndexRange | None:
        """Return the entries to ask for now; None when there are none. Nothing is asked for that is not confirmed."""
        firsts = {each.first for each in damaged}
        self._attempts = {first: tried for first, tried in self._attempts.items() if first in firsts}
        for first, last in damaged:
            tried = self._attempts.get(first)
            if first <= committed and (tried is None or tried.retry_at_ms <= now_ms):
                return IndexRange(first, min(last, committed, first + ENTRIES_MAX - 1))
        return None

    def pause_ms(self, damaged: Sequence[IndexRange], now_ms: float) -> float:
        """Return how long nothing is to be asked for, unless something happens."""
        due = [self._attempts[each.first].retry_at_ms for each in damaged if each.first in self._attempts]
        return max(0, min([*due, now_ms + RETRY_MS_MAX]) - now_ms)

    def may_lead(self, damaged: Sequence[IndexRange]) -> bool:
        """Whether everything was asked for, and comes or does not come: until then a new leader takes no messages.

        What is damaged may be the last message of a queue, whose offset must not be given out again.
        """
        return all(self._attempts.get(each.first, Attempts()).rounds >= ROUNDS_BEFORE_LEADING for each in damaged)

    def conclude(
        self,
        asked: IndexRange,
        answers: Mapping[str, Answer],
        fits_checksum: Callable[[bytes], bool | None],
        now_ms: float,
        *,
        leads: bool,
    ) -> RepairVerdict:
        """Decide what to do with the answers of a round."""
        found = {peer: answer for peer, answer in answers.items() if isinstance(answer, list) and answer}
        if found:
            return self._compare(asked, found, fits_checksum, now_ms)
        refusals = {peer: answer for peer, answer in answers.items() if isinstance(answer, NoEntry)}
        if set(refusals.values()) == {NoEntry.MISSING}:
            sentence = (
                f"DAMAGE: entry {asked.first} is damaged here, and no node of the group has it. It is set aside and skipped, "
                f"everything behind it is kept."
            )
            return self._fail(asked, RepairAction.LOST, sentence, now_ms, LOST_RETRY_MS)
        unwilling = tuple(peer for peer, why in refusals.items() if why is NoEntry.NOT_LEADER)
        if leads and unwilling and now_ms - self._handed_over_ms >= HAND_OVER_MS:
            self._handed_over_ms = now_ms
            sentence = f"Damaged here: entries {asked}. {' and '.join(unwilling)} {NoEntry.NOT_LEADER.value}: it shall lead."
            return self._fail(asked, RepairAction.HAND_OVER, sentence, now_ms)._replace(hand_over_to=unwilling)
        said = ", ".join(f"{peer} {why.value}" for peer, why in refusals.items()) or "the group has no other node"
        sentence = f"Damaged here, and not repaired yet: entries {asked}. {said}. They are asked for again."
        return self._fail(asked, RepairAction.WAIT, sentence, now_ms)

    def refuse(self, asked: IndexRange, why: str, now_ms: float) -> RepairVerdict:
        """What a node has sent could not be written here."""
        sentence = f"DAMAGE: entries {asked} cannot be repaired with those of other nodes: {why}"
        return self._fail(asked, RepairAction.DISPUTED, sentence, now_ms, RETRY_MS_MAX)

    def _compare(
        self, asked: IndexRange, found: dict[str, list[bytes]], fits_checksum: Callable[[bytes], bool | None], now_ms: float
    ) -> RepairVerdict:
        most = asked.last - asked.first + 1
        firsts = {peer: _comparable(entries[0]) for peer, entries in found.items()}
        if len(set(firsts.values())) > 1:
            right = {peer for peer, entries in found.items() if fits_checksum(entries[0])}
            if not right or len({firsts[peer] for peer in right}) > 1:
                sentence = (
                    f"DAMAGE: entry {asked.first} is damaged here, and {' and '.join(found)} have different ones. Nothing is "
                    f"written. Compare their stores with: skyrocket store verify"
                )
                return self._fail(asked, RepairAction.DISPUTED, sentence, now_ms, LOST_RETRY_MS)
            others = " and ".join(sorted(set(found) - right))
            sentence = f"DAMAGE: entry {asked.first} is wrong on {others}, by the checksum that this node kept of it."
            entry = found[min(right)][0]
            return RepairVerdict(RepairAction.RESTORE, [entry], tuple(sorted(right)), sentence)
        count = min(most, *map(len, found.values()))
        columns = zip(*(entries[:count] for entries in found.values()), strict=True)
        agreed = 0
        for column in columns:
            if len(set(map(_comparable, column))) > 1:
                break
            agreed += 1
        return RepairVerdict(RepairAction.RESTORE, next(iter(found.values()))[:agreed], tuple(sorted(found)))

    def _fail(self, asked: IndexRange, action: RepairAction, sentence: str, now_ms: float, retry_ms: float = 0) -> RepairVerdict:
        tried = self._attempts.setdefault(asked.first, Attempts())
        tried.rounds += 1
        tried.retry_at_ms = now_ms + (retry_ms or min(RETRY_MS_MIN * 2 ** min(tried.rounds - 1, 10), RETRY_MS_MAX))
        is_new = action not in tried.said
        tried.said.add(action)
        return RepairVerdict(action, [], (), sentence if is_new else "")


def _comparable(entry: bytes) -> bytes:
    return entry[: _CRCS.start] + entry[_CRCS.stop :]

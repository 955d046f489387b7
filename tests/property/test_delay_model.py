"""Delay levels against a model that is a list of what was sent: random messages, levels, times, kills, power cuts, by the seed.

Whatever happens: each message that was promised comes, none comes before its time, and those of a level come in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyrocket.store.config import delay_levels_ms
from tests.support.brokers.delays import Delays

LEVELS = "1s 5s 7s"
LEVELS_MS = delay_levels_ms(LEVELS)
ACTS = ("send", "send", "send", "turn", "turn", "turn", "flush", "save", "kill", "crash", "restart")


@dataclass(slots=True)
class Sent:
    level: int
    due_ms: int
    end: int  # in the log
    is_promised: bool = False  # on disk, or written when only the process was killed
    is_unknown: bool = False  # the power went before it was on disk


@dataclass(slots=True)
class Play:
    """One run by the seed, and the book of what was sent."""

    seed: int
    sync_flush: bool
    sent: dict[str, Sent] = field(default_factory=dict)
    power_cuts: int = 0

    def run(self, acts: int = 60) -> Delays:
        rng = Random(self.seed)
        delays = Delays(levels=LEVELS, sync_flush=self.sync_flush)
        for _ in range(acts):
            self._act(rng, delays, rng.choice(ACTS))
        for _ in range(len(self.sent) + 10):
            delays.flush()
            delays.now_ms += 1_000
            delays.settle()
        delays.flush()
        return delays

    def _act(self, rng: Random, delays: Delays, act: str) -> None:
        match act:
            case "send":
                for _ in range(rng.randrange(1, 6)):
                    self._send(rng, delays)
            case "turn":
                delays.pass_ms(rng.choice((0, 1, 19, 500, 1_000, 3_000)))
            case "flush":
                delays.flush()
                self._promise(delays.store.horizon.flushed)
            case "save":
                delays.save()
            case "kill":
                self._promise(delays.store.log.end)
                delays.kill()
            case "crash":
                self._promise(delays.store.horizon.flushed)
                delays.crash(rng)
                self.power_cuts += 1
                for sent in self.sent.values():
                    sent.is_unknown |= not sent.is_promised
            case "restart":
                delays.close()
                self._promise(delays.store.horizon.flushed)
                delays.open()

    def _send(self, rng: Random, delays: Delays) -> None:
        level, key = rng.randrange(1, 4), f"m{len(self.sent)}"
        placed = delays.send(level, key, queue_id=level)
        # The log's times never go back, so a message's time begins when the log says that it was stored.
        stored_ms = max(delays.now_ms, delays.store.last_timestamp)
        self.sent[key] = Sent(level, stored_ms + LEVELS_MS[level - 1], placed.physical_offset + placed.size)

    def _promise(self, position: int) -> None:
        for sent in self.sent.values():
            sent.is_promised |= not sent.is_unknown and sent.end <= position


def number(key: str) -> int:
    return int(key[1:])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.booleans())
def test_every_delayed_message_comes_never_early_and_in_order(seed: int, sync_flush: bool):
    play = Play(seed, sync_flush)
    delays = play.run()
    for level in range(1, len(LEVELS_MS) + 1):
        delivered = delays.delivered(queue_id=level)
        first_times = list(dict.fromkeys(message.key for message in delivered))
        promised = [key for key, sent in play.sent.items() if sent.level == level and sent.is_promised]
        assert set(promised) <= set(first_times), "a message that was promised is lost"
        last_times = list(dict.fromkeys(message.key for message in reversed(delivered) if message.key in promised))[::-1]
        assert last_times == sorted(last_times, key=number), "messages of a level are out of order"
        if not play.power_cuts:  # one may take a copy, and leave one behind it
            assert first_times == sorted(first_times, key=number), "messages of a level are out of order at first"
        for message in delivered:
            early_ms = play.sent[message.key].due_ms - message.at_ms
            assert early_ms <= 0, f"{message.key} came {early_ms} ms early"


def test_a_run_without_accidents_delivers_everything_once():
    delays = Delays(levels=LEVELS)
    rng = Random(7)
    sent: dict[int, list[str]] = {1: [], 2: [], 3: []}
    for i in range(300):
        level = rng.randrange(1, 4)
        delays.send(level, f"m{i}", queue_id=level)
        sent[level].append(f"m{i}")
        if rng.random() < 0.2:
            delays.pass_ms(rng.randrange(900))
        if rng.random() < 0.05:
            delays.close()
            delays.open()
    for _ in range(20):
        delays.pass_ms(1_000)
        delays.settle()
    assert {level: delays.keys(queue_id=level) for level in sent} == sent

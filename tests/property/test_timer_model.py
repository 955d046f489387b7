"""Timers against a model: each message is delivered at least once and never early, unless it was recalled: then never.

The seed decides which messages are sent and recalled, how time passes, and when the broker stops, is killed, or loses power at a
change to the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from skyrocket.store.cold_reads import WaitsForDiskError
from skyrocket.store.errors import StoreError
from tests.support.brokers.timer_world import ROLL_WINDOW_SLOTS, SLOTS, TimerWorld
from tests.support.stores.simulated_disk import PowerCut

DELAYS_MS = (1, 15, 300, 999, 1_000, 1_001, 2_500, 7_000, 30_000, ROLL_WINDOW_SLOTS * 1_000, 2 * ROLL_WINDOW_SLOTS * 1_000 + 500)
NEVER = 10**9


@dataclass(slots=True)
class Sent:
    due_ms: int
    waiting: dict[str, str]
    is_stored: bool = False
    is_safe: bool = False  # no cut can lose it
    may_be_recalled: bool = False
    is_recalled: bool = False
    recall_is_safe: bool = False

    def secure(self) -> None:
        self.is_safe = self.is_stored
        self.recall_is_safe = self.is_recalled


@dataclass(slots=True)
class Model:
    rng: Random
    powerless: bool
    world: TimerWorld = field(default_factory=TimerWorld)
    sent: dict[str, Sent] = field(default_factory=dict)

    def act(self) -> None:
        self.rng.choice((self.send, self.send, self.recall, self.wait, self.wait, self.flush, self.keep, self.write_back))()

    def send(self) -> None:
        for _ in range(self.rng.choice((1, 3, 20))):
            key = f"key{len(self.sent)}"
            delay_ms = self.rng.choice(DELAYS_MS) + self.rng.randrange(3)
            due_ms = self.world.now_ms + delay_ms
            sent = self.sent[key] = Sent(due_ms, {})
            if self.rng.random() < 0.5:
                sent.waiting = self.world.at(key, due_ms)
            else:
                sent.waiting = self.world.send(key, TIMER_DELAY_MS=str(delay_ms))
            sent.is_stored = True

    def recall(self) -> None:
        now_ms = self.world.now_ms
        open_to = [key for key, sent in self.sent.items() if now_ms <= int(sent.waiting.get("TIMER_OUT_MS", "0"))]
        if open_to:
            key = self.rng.choice(open_to)
            self.sent[key].may_be_recalled = True
            self.world.recall(key, self.sent[key].waiting)
            self.sent[key].is_recalled = True

    def wait(self) -> None:
        self.world.pass_ms(self.rng.choice((7, 250, 1_000, 3_333, 20_000)))

    def flush(self) -> None:
        self.world.store.flush()
        for sent in self.sent.values():
            sent.secure()

    def keep(self) -> None:
        self.world.keep()

    def write_back(self) -> None:
        self.world.disk.writeback(self.rng)

    def end(self) -> None:
        """One life of the broker. The next one begins after it, perhaps much later."""
        try:
            if self.rng.random() < 0.3:
                self.world.restart()
                self.flush()
            else:
                self.begin_again()
        except PowerCut:
            self.begin_again()
        self.world.now_ms += self.rng.choice((0, 0, 500, 5_000, 2 * SLOTS * 1_000))

    def begin_again(self) -> None:
        if self.powerless:
            self.world.cut_power(self.rng)
            for sent in self.sent.values():
                sent.is_stored, sent.is_recalled = sent.is_safe, sent.recall_is_safe
        else:
            self.world.kill()
            for sent in self.sent.values():
                sent.secure()

    def live(self, acts: int) -> None:
        self.world.disk.cut_power_at(self.rng.randrange(1, 200) if self.rng.random() < 0.7 else NEVER)
        try:
            for _ in range(acts):
                self.act()
        except PowerCut:
            pass

    def problems(self) -> list[str]:
        delivered: dict[str, list[int]] = {}
        for key, at_ms in self.world.delivered():
            delivered.setdefault(key, []).append(at_ms)
        found = []
        for key, sent in self.sent.items():
            times = delivered.get(key, [])
            if sent.recall_is_safe and times:
                found.append(f"{key} was taken back, and is delivered at {times}")
            if sent.is_safe and not sent.may_be_recalled and not times:
                found.append(f"{key}, due at {sent.due_ms}, is lost")
            if any(at_ms < sent.due_ms for at_ms in times):
                found.append(f"{key}, due at {sent.due_ms}, is delivered at {times}")
        return found


@pytest.mark.parametrize("powerless", [False, True], ids=["killed", "powerless"])
@pytest.mark.parametrize("seed", range(40))
def test_timers_are_delivered_at_least_once_and_never_early_unless_recalled(seed: int, powerless: bool):
    model = Model(Random(seed), powerless)
    for _ in range(6):
        model.live(20)
        model.end()
    model.world.disk.cut_power_at(NEVER)
    model.flush()
    model.world.pass_ms(4 * SLOTS * 1_000)
    assert model.problems() == []
    assert model.world.index.waiting == 0


@pytest.mark.parametrize("seed", range(10))
def test_occasional_disk_errors_lose_no_timer(seed: int):
    """Errors are reported, and the work is done later."""
    rng = Random(seed)
    world = TimerWorld()
    due = {}
    for i in range(150):
        due[f"key{i}"] = world.now_ms + rng.randrange(1, 20_000)
        world.at(f"key{i}", due[f"key{i}"])
    for _ in range(60):
        world.disk.fail(rng.choice(("write", "open", "read", "create", "replace", "remove")), rng.randrange(1, 6))
        for _ in range(10):
            world.now_ms += rng.choice((20, 100, 500))
            try:
                world.delivery.check(world.now_ms)
            except WaitsForDiskError as work:
                work.fetch()
            except StoreError:
                continue
        world.disk.heal()
    world.pass_ms(10_000)
    world.store.dispatch()  # a queue that could not grow is made good with the next append, or by this
    delivered = world.delivered()
    assert {key for key, _ in delivered} == set(due)
    assert all(at_ms >= due[key] for key, at_ms in delivered)

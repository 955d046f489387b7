"""Messages that wait in the broker survive its death between any two steps: delayed, half, and retried messages.

They are delivered at least once, never early and never lost, and a rolled-back message is never seen. `SKYROCKET_HAND_OVER_RUNS`
sets the number of seeds; `make crash` plays the 200 that docs/promises.md names.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

from skyrocket.protocol.message.properties import UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.record import Record
from tests.support.brokers.hand_over import DEAD, RETRY, TOPIC, World

RUNS = int(os.environ.get("SKYROCKET_HAND_OVER_RUNS", "30"))
SEEDS_A_TEST = 10
WHERE = {"delay": TOPIC, "timer": TOPIC, "commit": TOPIC, "retry": RETRY, "dead": DEAD}


@pytest.mark.parametrize("first", range(0, RUNS, SEEDS_A_TEST))
def test_waiting_messages_survive_the_broker(first: int) -> None:
    cuts = 0
    for seed in range(first, min(first + SEEDS_A_TEST, RUNS)):
        world = World(seed, powerless=seed % 2 == 1)
        found = world.play()
        check(world, found)
        cuts += world.cuts
    assert cuts > SEEDS_A_TEST, "hardly any life ended in the middle of something: the cuts come too late"


def check(world: World, found: list[tuple[str, Record]]) -> None:
    seen: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for topic, record in found:
        seen[topic, decode_properties(record.properties)[UNIQUE_KEY]].append(record)
    for entry in world.book.values():
        where = f"seed {world.seed}, {entry}"
        copies = seen[WHERE.get(entry.kind, TOPIC), entry.key]
        if entry.kind == "rollback":
            assert not copies, f"{where}: it was rolled back, and is seen"
            continue
        if entry.acknowledged:
            assert copies, f"{where}: it is lost"
        for copy in copies:
            early_ms = entry.due_ms - copy.store_timestamp
            assert early_ms <= 0, f"{where}: it came {early_ms} ms early"
            assert copy.body == entry.key.encode(), f"{where}: its body is {bytes(copy.body)!r}"

"""The sink with a topic at two brokers: rows go to both, or to the one that is left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.client import sync as client
from tests.spark.sink_deaths import Life, mortal_commit
from tests.spark.sink_scenes import bodies, commit, exactly_once, messages, options_for, send, stage, visible_bodies
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver

ROWS = [f"row {number}" for number in range(9)]
EVERY = sorted(row.encode() for row in ROWS)


class Pair(NamedTuple):
    nameserver: str
    brokers: tuple[SkyrocketBroker, SkyrocketBroker]


@pytest.fixture
def pair(tmp_path: Path, topic: str) -> Iterator[Pair]:
    """Two brokers, each with two queues of a topic."""
    with SkyrocketNameserver(tmp_path / "names") as names:
        made = [SkyrocketBroker(tmp_path / name, names.nameserver, {"brokerName": name}) for name in ("first", "second")]
        with made[0] as first, made[1] as second, client.Admin(names.nameserver) as admin:
            admin.topics.create(topic, queues=2)
            yield Pair(names.nameserver, (first, second))


async def test_rows_go_to_all_brokers(pair: Pair, topic: str):
    await send(options_for(pair.nameserver, topic, batchMessages="1"), bodies(*ROWS))
    found = await messages(pair.nameserver, topic)
    assert sorted(message.body for message in found) == EVERY
    assert {message.broker_name for message in found} == {"first", "second"}


def test_rows_for_a_lost_broker_go_to_the_other(pair: Pair, topic: str):
    """The nameserver keeps the lost broker's route for two minutes."""
    options = options_for(pair.nameserver, topic, batchMessages="5", sendTimeout="2s")
    rows = [bodies(*(f"{piece}-{row}" for row in range(500))) for piece in range(40)]
    with ThreadPoolExecutor(max_workers=1) as thread:
        sent = thread.submit(asyncio.run, send(options, *rows))
        pair.brokers[0].kill()
        assert sent.result() == 20_000
    pair.brokers[0].start()
    assert len(set(asyncio.run(visible_bodies(pair.nameserver, topic)))) == 20_000


async def test_batch_at_two_brokers_is_committed_once(pair: Pair, topic: str):
    chance = random.Random(2)
    options = exactly_once(pair.nameserver, topic)
    batch_id = 0
    for steps in (4, 7, 9, 12, 15):
        rows = [f"{batch_id} {row}" for row in ROWS]
        staged = await stage(options, bodies(*rows), query=topic, batch_id=batch_id)
        assert {each.queue.broker_name for each in staged} == {"first", "second"}
        await mortal_commit(options, staged, Life(steps), query=topic, batch_id=batch_id)
        chance.shuffle(rows)
        await commit(options, await stage(options, bodies(*rows), query=topic, batch_id=batch_id), query=topic, batch_id=batch_id)
        batch_id += 1
    expected = sorted(f"{number} {row}".encode() for number in range(batch_id) for row in ROWS)
    assert sorted(await visible_bodies(pair.nameserver, topic)) == expected

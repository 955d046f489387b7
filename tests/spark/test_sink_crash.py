"""Streams a topic into a topic, exactly once, while parts are killed with SIGKILL: each message comes out once, unchanged.

A sender runs all the time. `SKYROCKET_SPARK_CRASHES` is the number of crashes of each kind: two by default, twenty with
`make spark-crash`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import sync as client
from tests.spark.sink_scenes import visible_bodies
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import SEED, Sender, SparkDriver, ask_until_answered
from tests.support.spark.kills import KilledJob, kill_brokers, kill_drivers, kill_workers, running

SOURCE, SINK = "raw", "refined"


class ToTopic(KilledJob):
    def __init__(self, folder: Path, broker: Skyrocket) -> None:
        with client.Admin(broker.nameserver) as admin:
            for topic in (SOURCE, SINK):
                admin.topics.create(topic, queues=4)
        options = {
            "nameserver": broker.nameserver,
            "subscribe": SOURCE,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "300",
            "columns": "body",
        }
        sink = {"nameserver": broker.nameserver, "topic": SINK, "delivery": "exactly-once", "settleTime": "2s"}
        arguments = {"options": options, "sink": sink, "checkpoint": str(folder / "checkpoint")}
        super().__init__(
            broker,
            Sender(broker.nameserver, SOURCE, SEED),
            SparkDriver("tests.support.spark.stream_to_topic", arguments, folder / "driver.log"),
        )

    def rows(self) -> int:
        return ask_until_answered(self._end)

    def _end(self) -> int:
        with client.PullConsumer(self.broker.nameserver, group="counts") as consumer:
            return sum(consumer.end_offset(queue) for queue in consumer.queues(SINK))

    def check_rows(self) -> None:
        went_in, came_out = (self._bodies(topic) for topic in (SOURCE, SINK))
        repeated = [body[:20] for body, times in came_out.items() if times > 1 and times > went_in[body]]
        assert not repeated, f"{len(repeated)} of {len(went_in)} rows came more than once, such as {repeated[:3]}"
        lost = [body[:20] for body in went_in if body not in came_out]
        assert not lost, f"{len(lost)} of {len(went_in)} rows are lost, such as {lost[:3]}"
        assert came_out == went_in, "the output is the input"

    def _bodies(self, topic: str) -> Counter[bytes]:
        return Counter(asyncio.run(visible_bodies(self.broker.nameserver, topic)))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[KilledJob]:
    with running(tmp_path, ToTopic) as made:
        yield made


def test_killed_driver_repeats_and_loses_no_row(job: KilledJob):
    kill_drivers(job)


def test_killed_worker_repeats_and_loses_no_row(job: KilledJob):
    kill_workers(job)


def test_killed_broker_repeats_and_loses_no_row(job: KilledJob):
    kill_brokers(job)

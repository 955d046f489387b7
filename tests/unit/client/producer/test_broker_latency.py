from __future__ import annotations

import pytest

from skyrocket.client import ConfigurationError, Producer
from skyrocket.client.producer.broker_latency import SHORT_STEPS, LatencyTable


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [(0, 0), (549, 0), (550, 30_000), (1_000, 60_000), (2_999, 120_000), (3_000, 180_000), (14_999, 180_000), (15_000, 600_000)],
)
def test_the_slower_a_broker_the_longer_it_is_left_alone(latency_ms: int, pause_ms: int):
    assert LatencyTable().pause_ms(latency_ms) == pause_ms


@pytest.mark.parametrize(("latency_ms", "pause_ms"), [(550, 2_000), (1_800, 5_000), (5_000, 10_000), (15_000, 30_000)])
def test_there_is_the_newer_and_shorter_table_too(latency_ms: int, pause_ms: int):
    assert LatencyTable(SHORT_STEPS).pause_ms(latency_ms) == pause_ms


@pytest.mark.parametrize("steps", [(), [(100, 10), (100, 20)], [(200, 10), (100, 20)], [(-1, 10)], [(100, -10)]])
def test_steps_that_cannot_be_meant_are_told(steps: list[tuple[int, int]]):
    with pytest.raises(ConfigurationError, match="Steps of latencies rise"):
        Producer("127.0.0.1:1", avoid_slow_brokers=steps)


def test_a_producer_takes_steps_of_the_users_own():
    Producer("127.0.0.1:1", avoid_slow_brokers=SHORT_STEPS)
    assert Producer("127.0.0.1:1", avoid_slow_brokers=[(100, 1_000)])._latency.pause_ms(150) == 1_000
    assert Producer("127.0.0.1:1", avoid_slow_brokers=True)._latency.pause_ms(15_000) == 600_000
    assert Producer("127.0.0.1:1")._latency is None


def test_a_broker_is_available_again_when_its_pause_is_over():
    table = LatencyTable()
    table.answered("a", 600, now_ms=1_000)
    assert not table.is_available("a", 30_999)
    assert table.is_available("a", 31_000)
    assert table.is_available("b", 1_000)


def test_a_quick_answer_does_not_cut_a_pause_short():
    table = LatencyTable()
    table.answered("a", 20_000, now_ms=0)
    table.answered("a", 1, now_ms=10)
    table.answered("a", 600, now_ms=20)
    assert not table.is_available("a", 599_999)


def test_a_failure_counts_as_ten_seconds():
    table = LatencyTable()
    table.failed("a", now_ms=0)
    assert not table.is_available("a", 179_999)
    assert table.is_available("a", 180_000)

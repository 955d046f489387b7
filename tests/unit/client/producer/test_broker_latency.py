from __future__ import annotations

import pytest

from skyrocket.client import ConfigurationError, Producer
from skyrocket.client.producer.broker_latency import SHORT_STEPS, LatencyTable


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [(0, 0), (549, 0), (550, 30_000), (1_000, 60_000), (2_999, 120_000), (3_000, 180_000), (14_999, 180_000), (15_000, 600_000)],
)
def test_slower_broker_is_skipped_for_longer(latency_ms: int, pause_ms: int):
    assert LatencyTable().pause_ms(latency_ms) == pause_ms


@pytest.mark.parametrize(("latency_ms", "pause_ms"), [(550, 2_000), (1_800, 5_000), (5_000, 10_000), (15_000, 30_000)])
def test_short_steps_are_the_table_of_client_5_5_0(latency_ms: int, pause_ms: int):
    assert LatencyTable(SHORT_STEPS).pause_ms(latency_ms) == pause_ms


@pytest.mark.parametrize("steps", [(), [(100, 10), (100, 20)], [(200, 10), (100, 20)], [(-1, 10)], [(100, -10)]])
def test_invalid_steps_are_refused(steps: list[tuple[int, int]]):
    with pytest.raises(ConfigurationError, match="rising latencies"):
        Producer("127.0.0.1:1", avoid_slow_brokers=steps)


def test_producer_accepts_custom_steps():
    Producer("127.0.0.1:1", avoid_slow_brokers=SHORT_STEPS)
    assert Producer("127.0.0.1:1", avoid_slow_brokers=[(100, 1_000)])._latency.pause_ms(150) == 1_000
    assert Producer("127.0.0.1:1", avoid_slow_brokers=True)._latency.pause_ms(15_000) == 600_000
    assert Producer("127.0.0.1:1")._latency is None


def test_broker_is_available_again_after_its_pause():
    table = LatencyTable()
    table.record_latency("a", 600, now_ms=1_000)
    assert not table.is_available("a", 30_999)
    assert table.is_available("a", 31_000)
    assert table.is_available("b", 1_000)


def test_quick_response_does_not_shorten_a_pause():
    table = LatencyTable()
    table.record_latency("a", 20_000, now_ms=0)
    table.record_latency("a", 1, now_ms=10)
    table.record_latency("a", 600, now_ms=20)
    assert not table.is_available("a", 599_999)


def test_failure_counts_as_ten_seconds():
    table = LatencyTable()
    table.record_failure("a", now_ms=0)
    assert not table.is_available("a", 179_999)
    assert table.is_available("a", 180_000)

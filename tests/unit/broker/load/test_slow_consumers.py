"""A group that reads too far behind is stopped if the setting says so; a group that caught up is not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from skyrocket.broker.load.slow_consumers import CHECK_MS, SlowConsumers, SlowConsumerWatch, stop_group
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import running

START_MS = 1_700_000_000_000


class Watched:
    def __init__(self, **settings: object) -> None:
        self.slow_consumers = SlowConsumers()
        now = replace(BrokerSettings(stop_slow_consumers=True, slow_consumer_bytes=1_000), **settings)
        self.stopped: list[tuple[str, int]] = []
        self.watch = SlowConsumerWatch(self.slow_consumers, lambda: now, lambda *told: self.stopped.append(told))
        assert self.watch.check(START_MS) == START_MS + CHECK_MS

    def later(self, checks: int = 1) -> list[tuple[str, int]]:
        self.watch.check(START_MS + checks * CHECK_MS)
        return self.stopped


def test_slow_group_is_stopped_with_its_greatest_lag():
    watched = Watched()
    watched.slow_consumers.record_lag("slow", "orders", 0, 1_001)
    watched.slow_consumers.record_lag("slow", "orders", 1, 5_000)
    watched.slow_consumers.record_lag("quick", "orders", 0, 1_000)
    assert watched.watch.check(START_MS + CHECK_MS - 1) == START_MS + CHECK_MS
    assert watched.stopped == [], "the check is not due yet"
    assert watched.later() == [("slow", 5_000)]


def test_group_that_caught_up_is_not_stopped():
    watched = Watched()
    watched.slow_consumers.record_lag("group", "orders", 0, 5_000)
    watched.slow_consumers.record_lag("group", "orders", 0, 500)
    watched.slow_consumers.record_lag("group", "bills", 0, 5_000)
    watched.slow_consumers.clear_lag("group", "bills", 0)
    assert watched.later() == []


def test_enabled_group_is_judged_by_its_new_reads():
    watched = Watched()
    watched.slow_consumers.record_lag("group", "orders", 0, 5_000)
    assert watched.later() == [("group", 5_000)]
    assert watched.later(2) == [("group", 5_000)], "no new reads"
    watched.slow_consumers.record_lag("group", "orders", 0, 6_000)
    assert watched.later(3) == [("group", 5_000), ("group", 6_000)]


def test_no_group_is_stopped_if_the_setting_is_off():
    watched = Watched(stop_slow_consumers=False)
    watched.slow_consumers.record_lag("group", "orders", 0, 5_000)
    assert watched.later() == []


@pytest.mark.parametrize("limit_bytes", [1_000, 100_000])
async def test_a_pull_far_behind_the_end_of_the_log_stops_its_group(tmp_path: Path, limit_bytes: int):
    async with running(tmp_path, stop_slow_consumers=True, slow_consumer_bytes=limit_bytes) as served:
        for number in range(10):
            await served.send("orders", b"%d" % number * 500)
        assert (await served.pull("orders", 0, max_msg_nums=1)).code == ResponseCode.SUCCESS
        broker = served.broker
        watch = SlowConsumerWatch(broker.context.slow_consumers, broker.settings, partial(stop_group, broker.groups))
        watch.check(0)
        watch.check(CHECK_MS)
        answer = await served.pull("orders", 1)
        assert answer.code == (ResponseCode.NO_PERMISSION if limit_bytes < 5_000 else ResponseCode.SUCCESS)

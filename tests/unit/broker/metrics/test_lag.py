"""The lag of groups: what is committed, pulled and stored, at the bounds of queues, and how much one scrape reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.broker.metrics import lag
from skyrocket.broker.metrics.lag import GroupLag, LagMetrics
from tests.support.brokers.running_broker import running


@pytest.mark.parametrize(
    ("committed", "pulled", "in_flight", "ready"),
    [
        (40, 57, 17, 7),
        (64, 64, 0, 0),
        (0, 0, 0, 54),  # what has expired before offset 10 is no lag
        (99, 99, 0, 0),  # an offset beyond the end
        (40, 20, 0, 24),  # pulled again from an earlier offset
    ],
)
def test_a_queue_from_10_to_64(committed: int, pulled: int, in_flight: int, ready: int):
    group = GroupLag(("g",))
    group.add(committed, pulled, 10, 64)
    assert (group.in_flight, group.ready) == (in_flight, ready)


async def test_ages_are_those_of_the_oldest_message_and_bounded_reads_leave_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with running(tmp_path) as served:
        for number in range(4):
            assert (await served.send("orders", b"x", queue_id=number % 2)).code == 0
        offsets = served.broker.offsets
        for queue_id in range(2):
            offsets.commit("readers", "orders", queue_id, 1)
            offsets.commit("done", "orders", queue_id, 2)
        metrics = LagMetrics(served.broker.context)
        later_ms = served.broker.context.wall_ms() + 60_000
        monkeypatch.setattr(metrics, "_wall_ms", lambda: later_ms)
        await metrics.prepare()
        found = {one.labels[0]: one for one in metrics._lags}
        assert (found["readers"].in_flight, found["readers"].ready) == (0, 2)
        assert 60_000 <= found["readers"].lag_ms < 120_000
        assert found["readers"].queueing_ms == found["readers"].lag_ms
        assert (found["done"].lag_ms, found["done"].ready) == (0, 0)

        monkeypatch.setattr(lag, "READS_MAX", 0)
        await metrics.prepare()
        found = {one.labels[0]: one for one in metrics._lags}
        assert (found["readers"].ready, found["readers"].lag_ms) == (2, 0)


async def test_a_topic_that_was_deleted_and_a_queue_without_commits_have_no_lag(tmp_path: Path):
    async with running(tmp_path) as served:
        assert (await served.send("orders", b"x", queue_id=0)).code == 0
        assert (await served.send("orders", b"x", queue_id=1)).code == 0
        served.broker.offsets.commit("readers", "orders", 0, 0)
        served.broker.offsets.commit("readers", "gone", 0, 5)
        metrics = LagMetrics(served.broker.context)
        await metrics.prepare()
        assert [(one.labels[:2], one.ready) for one in metrics._lags] == [(("readers", "orders"), 1)]

"""How long requests took: counted by turn, and later where answers wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocket.broker.metrics.rpc_latency import BOUNDS_MS, RPC_LATENCY, TIMES_MAX, RpcLatency
from skyrocket.metrics.histogram import HistogramState
from skyrocket.net.server import SERVED_MS_BITS
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.metrics import MetricsExporter
from skyrocket.store.horizon import REPLICAS, Horizon
from tests.support.brokers.running_broker import running
from tests.support.processes.http_client import Page, scrape
from tests.support.waiting import WAIT_S_MAX

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
ON = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0}


class Scene:
    def __init__(self, *needs: str) -> None:
        self.now_ms = 1_000
        self.horizon = Horizon(0, needs)
        self.rpc = RpcLatency(self.horizon, lambda: self.now_ms)

    def counts(self) -> dict[tuple[str, ...], tuple[int, float]]:
        """The number of requests and the sum of their times, by request, response, is_long_polling and result."""
        (measured,) = self.rpc.collect()
        assert measured.family is RPC_LATENCY
        found = {}
        for labels, state in measured.rows:
            assert isinstance(state, HistogramState)
            found[labels[1:]] = (state.counts[-1], state.total)
        return found


def test_requests_of_a_turn_have_the_time_of_the_turn():
    scene = Scene()
    scene.rpc.record_turn(SEND, 12, 2)
    scene.rpc.record_turn(SEND, 3, 200)
    assert scene.counts() == {("send_message_v2", "success", "false", "success"): (15, 624.0)}
    (measured,) = scene.rpc.collect()
    ((_, state),) = measured.rows
    assert isinstance(state, HistogramState)
    assert state.counts == [0, 12, 12, 12, 12, 12, 15, 15, 15, 15]
    assert state.bounds == BOUNDS_MS


def test_turns_that_the_server_has_noted_are_taken_out():
    scene = Scene()
    notes = scene.rpc.notes()
    assert notes is not None
    notes |= {SEND << SERVED_MS_BITS | 2: 5, PULL << SERVED_MS_BITS | 2: 7}
    scene.rpc.take_turns()
    assert notes == {}
    notes[SEND << SERVED_MS_BITS | 2] = 1
    assert scene.counts() == {("send_message_v2", "success", "false", "success"): (6, 12.0)}
    assert Scene(REPLICAS).rpc.notes() is None, "answers wait there"


def test_answers_that_wait_are_counted_when_they_leave():
    scene = Scene(REPLICAS)
    scene.horizon.append(100)
    scene.rpc.record_turn(SEND, 2, 1)
    scene.horizon.append(200)
    scene.rpc.record_turn(SEND, 5, 1)
    assert scene.counts() == {}
    scene.now_ms += 40
    scene.horizon.reach(REPLICAS, 150)
    scene.rpc.record_released()
    assert scene.counts() == {("send_message_v2", "success", "false", "success"): (2, 82.0)}


def test_answers_that_waited_too_long_are_counted_with_what_they_said():
    scene = Scene(REPLICAS)
    scene.horizon.append(100)
    scene.rpc.record_turn(SEND, 3, 0)
    scene.now_ms += 5_000
    scene.rpc.record_unconfirmed(100, ResponseCode.FLUSH_SLAVE_TIMEOUT, 2)
    scene.horizon.reach(REPLICAS, 100)
    scene.rpc.record_released()
    assert scene.counts() == {
        ("send_message_v2", "flush_slave_timeout", "false", "success"): (2, 10_000.0),
        ("send_message_v2", "success", "false", "success"): (1, 5_000.0),
    }


def test_pulls_of_a_fast_path_are_counted_by_the_fast_path_alone():
    scene = Scene()
    scene.rpc.record_turn(PULL, 4, 1)
    scene.rpc.record_answered(PULL, 3, 1)
    scene.rpc.record_response(PULL, ResponseCode.PULL_NOT_FOUND, 500, is_long_polling=True)
    assert scene.counts() == {
        ("pull_message", "success", "false", "success"): (3, 3.0),
        ("pull_message", "pull_not_found", "true", "success"): (1, 500.0),
    }


def test_requests_and_responses_that_nobody_knows_are_one_series():
    scene = Scene()
    for code in range(9_000, 9_500):
        scene.rpc.record_response(code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 1_000)
    scene.rpc.record_response(SEND, 7_777, 1_000, is_oneway=True)
    assert scene.counts() == {
        ("(other)", "request_code_not_supported", "false", "success"): (500, 0.0),
        ("send_message_v2", "(other)", "false", "oneway"): (1, 0.0),
    }


async def test_different_times_of_turns_are_bounded(tmp_path: Path):
    async with running(tmp_path, **ON) as served:
        assert served.broker.monitoring is not None
        notes = served.broker.server.served_turns
        assert notes is not None
        notes |= {SEND << SERVED_MS_BITS | took_ms: 1 for took_ms in range(2 * TIMES_MAX)}
        async with asyncio.timeout(WAIT_S_MAX):
            while len(notes) > TIMES_MAX:  # a round of the event loop sorts them
                await served.send("orders", b"x")
        page = await scrape(served.broker.monitoring.port)
        assert counted(page, "send_message_v2", "success") > 2 * TIMES_MAX


def counted(page: Page, request: str, response: str, **more: str) -> float:
    return page.value("rocketmq_rpc_latency_milliseconds_count", request_code=request, response_code=response, **more)


@pytest.mark.parametrize("sync_flush", [False, True])
async def test_every_request_of_a_broker_is_counted_once(tmp_path: Path, sync_flush: bool):
    async with running(tmp_path, **ON, sync_flush=sync_flush) as served:
        assert served.broker.monitoring is not None
        for _ in range(3):
            await asyncio.gather(*(served.send("orders", b"x") for _ in range(20)))
        assert (await served.send("x" * 200, b"x")).code != ResponseCode.SUCCESS, "a name that is too long"
        await served.heartbeat("readers", orders="*")
        await served.pull("orders", 0, consumer_group="readers")
        await served.ask(9_999)
        page = await scrape(served.broker.monitoring.port)
        assert counted(page, "send_message_v2", "success", result="success", protocol_type="remoting") == 60
        assert counted(page, "heart_beat", "success") == 1
        assert counted(page, "pull_message", "success", is_long_polling="false") == 1
        assert counted(page, "(other)", "request_code_not_supported") == 1
        refused = [
            value
            for labels, value in page.samples["rocketmq_rpc_latency_milliseconds_count"]
            if labels["request_code"] == "send_message_v2" and labels["response_code"] != "success"
        ]
        assert refused == [1]
        assert page.value("rocketmq_message_size_count", topic="orders", message_type="normal", is_system="false") == 60
        assert page.value("rocketmq_message_size_bucket", topic="orders", le="1024.0") == 60
        assert page.value("rocketmq_message_size_sum", topic="orders") == page.value(
            "rocketmq_throughput_in_total", topic="orders"
        )


async def test_a_pull_that_waits_is_counted_with_its_waiting_time(tmp_path: Path):
    async with running(tmp_path, **ON) as served:
        assert served.broker.monitoring is not None
        await served.send("orders", b"x")
        await served.heartbeat("readers", orders="*")
        waiting = asyncio.create_task(served.pull("orders", 1, consumer_group="readers", hold_ms=20_000))
        while not served.broker.pull.waiting:  # noqa: ASYNC110 no event tells of it
            await asyncio.sleep(0.01)
        await served.send("orders", b"y" * 5_000)
        await waiting
        page = await scrape(served.broker.monitoring.port)
        assert counted(page, "pull_message", "success", is_long_polling="true") == 1
        assert page.value("rocketmq_message_size_bucket", topic="orders", le="4096.0") == 1
        assert page.value("rocketmq_message_size_bucket", topic="orders", le="524288.0") == 2

"""Requests that waited too long are refused with the figure; a stalled disk pauses sends, not pulls."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.load.flow_control import PAUSE_MS_MAX, STALLS_MS, FlowControl
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.message_store import MessageStore
from tests.support.brokers.running_broker import running

SEND, PULL, TOPICS = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.UPDATE_AND_CREATE_TOPIC
NOW_MS = 1_000_000


def controlled(**settings: object) -> FlowControl:
    now = replace(BrokerSettings(), **settings)
    return FlowControl(lambda: now)


def overload(flow: FlowControl, late_ms: int, *, until_ms: int = NOW_MS) -> None:
    """Let the broker work through long rounds, one behind another, for more than ten seconds."""
    for end_ms in range(until_ms - 3 * late_ms - 12_000, until_ms + 1, late_ms):
        flow.record_round(late_ms, late_ms, end_ms)
    flow.record_round(late_ms, late_ms, until_ms)


@pytest.mark.parametrize(
    ("code", "limit_ms"),
    [
        (RequestCode.SEND_MESSAGE, 200),
        (RequestCode.SEND_MESSAGE_V2, 200),
        (RequestCode.SEND_BATCH_MESSAGE, 200),
        (RequestCode.SEND_REPLY_MESSAGE_V2, 200),
        (RequestCode.CONSUMER_SEND_MSG_BACK, 200),
        (RequestCode.PULL_MESSAGE, 5_000),
        (RequestCode.LITE_PULL_MESSAGE, 5_000),
        (RequestCode.HEART_BEAT, 31_000),
        (RequestCode.END_TRANSACTION, 3_000),
    ],
)
def test_each_request_code_has_its_own_limit(code: int, limit_ms: int):
    flow = controlled()
    overload(flow, 50_000)
    now_ms = NOW_MS + limit_ms
    assert flow.refusal(code, limit_ms - 1, limit_ms - 1, now_ms) is None
    why = flow.refusal(code, limit_ms, limit_ms, now_ms)
    assert why is not None
    assert why.startswith(f"The broker is busy: this request has waited for {limit_ms} ms; waitTimeMillsIn")
    assert why.endswith(f"Queue allows {limit_ms} ms.")


def test_overload_refuses_what_waited_and_serves_the_first_of_each_round():
    flow = controlled()
    overload(flow, 400)
    assert flow.is_calm(0, NOW_MS + 1)
    assert flow.is_calm(199, NOW_MS + 219)
    assert not flow.is_calm(250, NOW_MS + 270)
    why = flow.refusal(SEND, 250, 250, NOW_MS + 270)
    assert why == "The broker is busy: this request has waited for 250 ms; waitTimeMillsInSendQueue allows 200 ms."
    flow.record_round(30, 30, NOW_MS + 300)
    assert flow.is_calm(250, NOW_MS + 570), "the backlog has drained"


def test_pause_of_the_machine_is_no_overload():
    flow = controlled()
    overload(flow, 100)
    assert flow.is_calm(3_000, NOW_MS + 3_000)
    assert flow.refusal(SEND, 3_000, 15, NOW_MS + 3_000) is None


def test_request_without_a_limit_is_served_however_late():
    flow = controlled()
    overload(flow, 400)
    assert flow.refusal(TOPICS, 10_000, 10_000, NOW_MS + 10_000) is None


def test_requests_are_not_checked_while_nothing_waits():
    flow = controlled()
    assert flow.is_calm(199, NOW_MS)
    assert flow.waited_ms == 199
    flow = controlled(pull_wait_ms_max=50)
    overload(flow, 60)
    assert not flow.is_calm(50, NOW_MS + 60), "the lowest limit counts"


def test_second_stall_within_ten_seconds_pauses_sends_for_as_long():
    flow = controlled()
    flow.record_served(SEND, 1_000, NOW_MS)
    flow.record_served(SEND, 1_000, NOW_MS + 1)
    assert flow.is_calm(0, NOW_MS + 1), "exactly the limit"
    flow.record_served(SEND, 1_200, NOW_MS)
    assert flow.is_calm(0, NOW_MS), "a single stall: perhaps the machine was paused"
    again_ms = NOW_MS + 9_000
    flow.record_served(SEND, 1_001, again_ms)
    assert not flow.is_calm(0, again_ms)
    why = flow.refusal(SEND, 0, 0, again_ms + 999)
    assert why == "The disk is busy: the last sends took 1001 ms to store; osPageCacheBusyTimeOutMills allows 1000 ms."
    assert flow.refusal(PULL, 0, 0, again_ms) is None, "pulls are served"
    assert flow.refusal(SEND, 0, 0, again_ms + 1_001) is None
    assert flow.is_calm(0, again_ms + 1_001)
    assert flow.longest_send_ms == 1_200


def test_stalls_that_are_far_apart_pause_nothing():
    flow = controlled()
    flow.record_served(SEND, 1_200, NOW_MS)
    flow.record_served(SEND, 1_200, NOW_MS + STALLS_MS + 1_200)
    assert flow.is_calm(0, NOW_MS + STALLS_MS + 1_200)


def test_the_pause_lasts_a_second_at_most():
    flow = controlled()
    flow.record_served(SEND, 60_000, NOW_MS)
    flow.record_served(SEND, 60_000, NOW_MS + 60_000)
    assert not flow.is_calm(0, NOW_MS + 60_000 + PAUSE_MS_MAX - 1)
    assert flow.is_calm(0, NOW_MS + 60_000 + PAUSE_MS_MAX)
    assert PAUSE_MS_MAX <= 1_000


def test_slow_query_does_not_pause_sends():
    flow = controlled()
    for _ in range(2):
        flow.record_served(TOPICS, 60_000, NOW_MS)
    assert flow.is_calm(0, NOW_MS)


def test_flow_control_can_be_switched_off():
    flow = controlled(refuse_late=False)
    overload(flow, 400)
    for _ in range(2):
        flow.record_served(SEND, 60_000, NOW_MS)
    assert flow.refusal(SEND, 60_000, 60_000, NOW_MS + 10) is None


async def test_broker_with_a_stalled_disk_refuses_sends_for_a_while_and_serves_pulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stall_ms = [0]

    def stalling(real):
        def append(*given):
            time.sleep(stall_ms[0] / 1000)
            return real(*given)

        return append

    for name in ("append", "append_encoded"):
        monkeypatch.setattr(MessageStore, name, stalling(getattr(MessageStore, name)))
    async with running(tmp_path, append_ms_max=400) as served:
        assert (await served.send("orders", b"before")).code == ResponseCode.SUCCESS
        stall_ms[0] = 600
        for _ in range(2):  # a single stall refuses nothing
            assert (await served.send("orders", b"slow")).code == ResponseCode.SUCCESS, "the slow send itself succeeds"
        stall_ms[0] = 0
        refused = await served.send("orders", b"refused")
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert " ms to store; osPageCacheBusyTimeOutMills allows 400 ms." in (refused.remark or "")
        assert (await served.pull("orders", 0)).code == ResponseCode.SUCCESS
        async with asyncio.timeout(30):
            while (await served.send("orders", b"after")).code == ResponseCode.SYSTEM_BUSY:  # noqa: ASYNC110 — a pause
                await asyncio.sleep(0.05)

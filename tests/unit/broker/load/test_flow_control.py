"""Requests that waited too long are refused with the figure; a stalled disk pauses sends, not pulls."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.load.flow_control import CALM_MS, PAUSE_MS_MAX, FlowControl
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.message_store import MessageStore
from tests.support.running_broker import running

SEND, PULL, TOPICS = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.UPDATE_AND_CREATE_TOPIC
NOW_MS = 1_000_000


def controlled(**settings: object) -> FlowControl:
    now = replace(BrokerSettings(), **settings)
    return FlowControl(lambda: now)


def late(flow: FlowControl, waited_ms: int, since_ms: int) -> None:
    """Simulate read events whose requests have waited for this long, since that time."""
    for now_ms in range(since_ms, NOW_MS + 1, 100):
        assert not flow.is_calm(waited_ms, now_ms)


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
    late(flow, 100_000, NOW_MS - 100_000)
    assert flow.refusal(code, limit_ms - 1, NOW_MS) is None
    why = flow.refusal(code, limit_ms, NOW_MS)
    assert why is not None
    assert f"{limit_ms} ms; {limit_ms} ms" in why


def test_single_pause_refuses_no_request_and_a_lasting_one_does():
    flow = controlled()
    assert not flow.is_calm(3_000, NOW_MS)
    assert flow.refusal(SEND, 3_000, NOW_MS) is None, "a single pause of three seconds"
    assert not flow.is_calm(3_000, NOW_MS + 199)
    assert flow.refusal(SEND, 3_000, NOW_MS + 199) is None
    assert not flow.is_calm(3_000, NOW_MS + 200)
    assert flow.refusal(SEND, 3_000, NOW_MS + 200) is not None
    assert flow.is_calm(0, NOW_MS + 300), "the first request of a turn is served"
    assert not flow.is_calm(200, NOW_MS + 1_200)
    assert flow.refusal(SEND, 200, NOW_MS + 1_200) is not None, "the overload lasts"
    assert not flow.is_calm(200, NOW_MS + 1_200 + CALM_MS + 1)
    assert flow.refusal(SEND, 200, NOW_MS + 1_200 + CALM_MS + 1) is None, "the overload ended, and a new one begins"


def test_request_without_a_limit_is_served_however_late():
    flow = controlled()
    late(flow, 10_000_000, NOW_MS - 1_000)
    assert flow.refusal(TOPICS, 10_000_000, NOW_MS) is None


def test_requests_are_not_checked_while_nothing_waits():
    flow = controlled()
    assert flow.is_calm(199, NOW_MS)
    assert not flow.is_calm(200, NOW_MS)
    assert flow.waited_ms == 200
    assert not controlled(pull_wait_ms_max=50).is_calm(50, NOW_MS), "the lowest limit counts"


def test_slow_sends_pause_further_sends_for_as_long():
    flow = controlled()
    flow.record_served(SEND, 1_000, NOW_MS)
    assert flow.is_calm(0, NOW_MS), "exactly the limit"
    flow.record_served(SEND, 1_200, NOW_MS)
    assert not flow.is_calm(0, NOW_MS)
    why = flow.refusal(SEND, 0, NOW_MS + 1_199)
    assert why is not None
    assert "1200 ms" in why
    assert flow.refusal(PULL, 0, NOW_MS) is None, "pulls are served"
    assert flow.refusal(SEND, 0, NOW_MS + 1_200) is None
    assert flow.is_calm(0, NOW_MS + 1_200)
    assert flow.longest_send_ms == 1_200


def test_the_pause_has_a_bound():
    flow = controlled()
    flow.record_served(SEND, 60_000, NOW_MS)
    assert not flow.is_calm(0, NOW_MS + PAUSE_MS_MAX - 1)
    assert flow.is_calm(0, NOW_MS + PAUSE_MS_MAX)


def test_slow_query_does_not_pause_sends():
    flow = controlled()
    flow.record_served(TOPICS, 60_000, NOW_MS)
    assert flow.is_calm(0, NOW_MS)


def test_flow_control_can_be_switched_off():
    flow = controlled(refuse_late=False)
    late(flow, 60_000, NOW_MS - 1_000)
    flow.record_served(SEND, 60_000, NOW_MS)
    assert flow.refusal(SEND, 60_000, NOW_MS) is None


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
        assert (await served.send("orders", b"slow")).code == ResponseCode.SUCCESS, "the slow send itself succeeds"
        stall_ms[0] = 0
        refused = await served.send("orders", b"refused")
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert " ms to store; 400 ms are allowed" in (refused.remark or "")
        assert (await served.pull("orders", 0)).code == ResponseCode.SUCCESS
        async with asyncio.timeout(30):
            while (await served.send("orders", b"after")).code == ResponseCode.SYSTEM_BUSY:  # noqa: ASYNC110 — a pause
                await asyncio.sleep(0.05)

"""Broker statistics under Apache's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.protocol.bodies import BrokerStatsData, BrokerStatsItem
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, ViewBrokerStatsDataRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import RunningBroker, running


async def statistic(served: RunningBroker, name: str, key: str) -> BrokerStatsItem:
    header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
    answer = await served.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    data = decode(answer.body, BrokerStatsData)
    assert data.stats_minute is not None
    assert (data.stats_hour, data.stats_day) == (data.stats_minute, data.stats_minute), "the counters have just started"
    return data.stats_minute


async def test_sent_and_pulled_messages_are_counted(tmp_path: Path):
    async with running(tmp_path) as served:
        for _ in range(6):
            await served.send("orders", b"x" * 100)
        await served.send("RMQ_SYS_TRACE_TOPIC", b"a trace")
        await served.pull("orders", 0, max_msg_nums=4)
        await served.pull("orders", 4)
        back = ConsumerSendMsgBackRequestHeader(offset=0, group="consumers", delay_level=0)
        assert (await served.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS

        sizes = await statistic(served, "TOPIC_PUT_SIZE", "orders")
        assert 600 < sizes.sum < 2_400
        fetched = await statistic(served, "GROUP_GET_NUMS", "orders@consumers")
        assert (fetched.sum, fetched.avgpt) == (6, 3.0), "two pulls"
        assert (await statistic(served, "GROUP_GET_SIZE", "orders@consumers")).sum == sizes.sum
        assert (await statistic(served, "GROUP_GET_LATENCY", "orders@consumers")).sum < 1_000
        for name, key, expected in (
            ("TOPIC_PUT_NUMS", "orders", 6),
            ("SNDBCK_PUT_NUMS", "orders@consumers", 1),
            ("BROKER_PUT_NUMS", "DefaultCluster", 8),
            ("BROKER_GET_NUMS", "DefaultCluster", 6),
            ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster", 6),
            ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster", 6),
        ):
            assert (await statistic(served, name, key)).sum == expected, name


@pytest.mark.parametrize(
    ("name", "key"),
    [("TOPIC_PUT_NUMS", "nobody"), ("NO_SUCH_THING", "DefaultCluster"), ("BROKER_PUT_NUMS", "OtherCluster"), ("", "")],
)
async def test_unknown_statistic_is_refused(tmp_path: Path, name: str, key: str):
    async with running(tmp_path) as served:
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        answer = await served.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert name in (answer.remark or "")

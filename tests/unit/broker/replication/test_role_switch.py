"""The role of a broker: what a slave refuses and does not do, and how a running broker changes its role."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.replication.role_switch import RoleSwitch
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.broker.replication.slave_refusals import slave_refusal
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import SubscriptionGroupConfig
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, EndTransactionRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.live import LiveSettings
from tests.support.brokers.running_broker import records, running, send_header

SLAVE = {"role": BrokerRole.SLAVE, "broker_id": 1}
END = EndTransactionRequestHeader(
    producer_group="p",
    tran_state_table_offset=0,
    commit_log_offset=0,
    commit_or_rollback=8,
    from_transaction_check=False,
    msg_id="x",
)
BACK = ConsumerSendMsgBackRequestHeader(offset=0, group="consumers", delay_level=3, origin_msg_id="x", origin_topic="orders")


class Work:
    """Role work that records what happens to it."""

    def __init__(self, name: str, events: list[str]) -> None:
        self._name = name
        self._events = events

    def start(self) -> None:
        self._events.append(f"{self._name} starts")

    async def stop(self) -> None:
        self._events.append(f"{self._name} stops")


async def test_change_of_the_role_stops_the_old_work_before_it_starts_the_new():
    events: list[str] = []
    settings = LiveSettings(BrokerSettings())
    roles = RoleSwitch(settings, Router())
    roles.add_master_work(Work("delays", events))
    roles.add_master_work(Work("checks", events))
    roles.add_slave_work(Work("copy", events))
    roles.on_change.append(lambda: events.append(f"registers as {settings().broker_id}"))
    roles.start()
    await roles.change(BrokerRole.SLAVE, 2)
    assert events == ["delays starts", "checks starts", "checks stops", "delays stops", "copy starts", "registers as 2"]
    events.clear()
    await roles.change(BrokerRole.SYNC_MASTER, 0)
    await roles.stop()
    assert events == ["copy stops", "delays starts", "checks starts", "registers as 0", "checks stops", "delays stops"]


async def test_master_that_becomes_synchronous_goes_on_with_its_work():
    events: list[str] = []
    settings = LiveSettings(BrokerSettings())
    roles = RoleSwitch(settings, Router())
    roles.add_master_work(Work("delays", events))
    roles.start()
    await roles.change(BrokerRole.SYNC_MASTER, 0)
    assert events == ["delays starts"]
    assert settings().role is BrokerRole.SYNC_MASTER


@pytest.mark.parametrize(
    ("code", "given", "answer"),
    [
        (RequestCode.SEND_MESSAGE_V2, {"header": send_header("orders"), "body": b"x"}, ResponseCode.SYSTEM_BUSY),
        (RequestCode.SEND_BATCH_MESSAGE, {"header": send_header("orders", batch=True), "body": b"x"}, ResponseCode.SYSTEM_BUSY),
        (RequestCode.CONSUMER_SEND_MSG_BACK, {"header": BACK}, ResponseCode.SYSTEM_BUSY),
        (RequestCode.END_TRANSACTION, {"header": END}, ResponseCode.SLAVE_NOT_AVAILABLE),
        (RequestCode.RECALL_MESSAGE, {}, ResponseCode.SLAVE_NOT_AVAILABLE),
        (RequestCode.RESUME_CHECK_HALF_MESSAGE, {}, ResponseCode.SYSTEM_ERROR),
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {}, ResponseCode.SYSTEM_ERROR),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, {}, ResponseCode.SYSTEM_ERROR),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {}, ResponseCode.SYSTEM_ERROR),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            {"body": encode(SubscriptionGroupConfig(group_name="g"))},
            ResponseCode.SYSTEM_ERROR,
        ),
        (RequestCode.PULL_MESSAGE, {}, ResponseCode.SYSTEM_BUSY),
        (RequestCode.LITE_PULL_MESSAGE, {}, ResponseCode.SYSTEM_BUSY),
    ],
)
@pytest.mark.parametrize("serialization", list(Serialization))
async def test_slave_refuses_with_the_codes_of_apaches_slave(
    tmp_path: Path, code: int, given: dict[str, Any], answer: int, serialization: Serialization
):
    async with running(tmp_path, **SLAVE) as served:
        response = await served.ask(code, serialization=serialization, **given)
        assert response.code == answer
        assert "slave" in (response.remark or "")
        assert served.broker.store.horizon.appended == 0


async def test_slave_serves_what_its_log_has_and_stores_nothing(tmp_path: Path):
    async with running(tmp_path) as served:
        for number in range(3):
            await served.send("orders", b"%d" % number)
        await served.send("orders", b"later", properties={"DELAY": "1"})
    async with running(tmp_path, slave_read=True, **SLAVE) as served:
        end = served.broker.store.horizon.appended
        assert [record.body for record in records(await served.pull("orders", 0))] == [b"0", b"1", b"2"]
        refused = await served.send("orders", b"3")
        assert (refused.code, refused.remark[:15]) == (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]")
        await asyncio.sleep(1.5)  # the delay of level 1 is over
        assert served.broker.store.horizon.appended == end


async def test_slave_that_becomes_master_delivers_what_is_due(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"now")
        await served.send("orders", b"later", properties={"DELAY": "1"})
        await served.send("orders", b"timed", properties={"TIMER_DELAY_MS": "1000"})
    async with running(tmp_path, slave_read=True, **SLAVE) as served:
        await served.broker.roles.change(BrokerRole.ASYNC_MASTER, 0)
        assert (await served.send("orders", b"again")).code == ResponseCode.SUCCESS
        bodies = await served.wait_for_bodies("orders", 4)
        assert sorted(bodies) == [b"again", b"later", b"now", b"timed"]
        await served.broker.roles.change(BrokerRole.SLAVE, 1)
        assert (await served.send("orders", b"x")).code == ResponseCode.SYSTEM_BUSY


def test_slave_gives_messages_only_with_slave_read():
    assert slave_refusal(RequestCode.PULL_MESSAGE, serves_reads=True) is None
    assert slave_refusal(RequestCode.PULL_MESSAGE, serves_reads=False) is not None
    assert slave_refusal(RequestCode.UPDATE_CONSUMER_OFFSET, serves_reads=True) is None

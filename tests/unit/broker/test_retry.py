"""What comes back from consumers: another try, later each time, and dead letters in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.retry import decide_retry, is_dead_on_send
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import LockBatchRequestBody, MessageQueue, SubscriptionGroupConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import SMALL, RunningBroker

BEGIN_MS = 1_700_000_000_000


# --- decisions


@pytest.mark.parametrize("tried", range(16))
def test_each_try_waits_a_level_longer(tried: int):
    assert decide_retry(tried, 16, 0) == (False, 3 + tried)


def test_after_the_limit_a_message_is_a_dead_letter():
    assert decide_retry(16, 16, 0).is_dead
    assert decide_retry(0, 0, 0).is_dead
    assert decide_retry(0, -1, 0).is_dead


def test_a_consumer_may_choose_the_level_or_give_up():
    assert decide_retry(5, 16, 1) == (False, 1)
    assert decide_retry(0, 16, -1).is_dead


def test_a_message_that_a_client_sends_itself_counts_this_try_too():
    assert not is_dead_on_send(16, 16, consumed_in_order=False)
    assert is_dead_on_send(17, 16, consumed_in_order=False)


def test_what_was_consumed_in_order_and_is_sent_is_given_up():
    assert is_dead_on_send(1, 16, consumed_in_order=True)


# --- the broker


class Shop(RunningBroker):
    """A broker with a clock of its own, and the group 'shop'."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.now_ms = BEGIN_MS
        super().__init__(Broker(settings, wall_ms=lambda: self.now_ms))

    async def order(self, body: bytes = b"order", **given: Any) -> Record:
        properties = {"UNIQ_KEY": "KEY1", "TAGS": "red", "KEYS": "k1", "own": "yes", "WAIT": "true"}
        sent = await self.send("orders", body, properties=properties, queue_id=1, flag=5, **given)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        return self.records("orders", 1)[-1]

    async def back(self, offset: int, level: int = 0, group: str = "shop", **given: Any) -> Command:
        header = ConsumerSendMsgBackRequestHeader(offset=offset, group=group, delay_level=level, **given)
        return await self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    async def send_back(self, offset: int, level: int = 0, **given: Any) -> None:
        answer = await self.back(offset, level, **given)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def group(self, **given: Any) -> None:
        config = SubscriptionGroupConfig(**{"group_name": "shop", **given})
        answer = await self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(config))
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        return [decode_record(view) for view in self.broker.store.reading.messages(topic, queue_id, 0, 1000).records]

    def pass_ms(self, span_ms: int) -> None:
        self.now_ms += span_ms
        self.broker.scheduler.turn()


@asynccontextmanager
async def running_shop(path: Path, **changes: Any) -> AsyncIterator[Shop]:
    shop = Shop(replace(SMALL, store_path=str(path / "store"), **changes))
    await shop.broker.start()
    try:
        yield shop
    finally:
        await shop.dialer.close()
        await shop.broker.close()


async def test_a_message_that_is_sent_back_comes_to_its_groups_retry_topic_after_its_level(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        await shop.send_back(order.physical_offset)
        shop.pass_ms(9_999)
        assert shop.records("%RETRY%shop") == []
        shop.pass_ms(1)
        (again,) = shop.records("%RETRY%shop")
        assert (again.body, again.flag, again.reconsume_times) == (b"order", 5, 1)
        assert (again.born_timestamp, again.born_host) == (order.born_timestamp, order.born_host)
        host = order.store_host.hex().upper()
        assert decode_properties(again.properties) == {
            **decode_properties(order.properties),
            "WAIT": "false",
            "RETRY_TOPIC": "orders",
            "ORIGIN_MESSAGE_ID": f"{host}{order.physical_offset:016X}",
            "DELAY": "3",
            "REAL_TOPIC": "%RETRY%shop",
            "REAL_QID": "0",
        }


async def test_a_message_is_tried_sixteen_times_each_time_later_and_then_lies_among_the_dead_letters(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        message = await shop.order()
        first_id = f"{message.store_host.hex().upper()}{message.physical_offset:016X}"
        waits = []
        for tried in range(1, 17):
            await shop.send_back(message.physical_offset)
            since_ms = shop.now_ms
            while len(shop.records("%RETRY%shop")) < tried:
                shop.pass_ms(1_000)
            waits.append((shop.now_ms - since_ms) // 1000)
            message = shop.records("%RETRY%shop")[-1]
            assert message.reconsume_times == tried
        assert waits == [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
        await shop.send_back(message.physical_offset)
        (dead,) = shop.records("%DLQ%shop")
        properties = decode_properties(dead.properties)
        assert (dead.reconsume_times, dead.body) == (17, b"order")
        assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", first_id)
        assert properties["DELAY"] == "0"
        shop.pass_ms(100 * 3_600_000)
        assert len(shop.records("%RETRY%shop")) == 16, "a dead letter came back"
        assert len(shop.records("%DLQ%shop")) == 1


async def test_the_level_that_a_consumer_asks_for_is_the_level(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        await shop.send_back(order.physical_offset, 1)
        shop.pass_ms(1_000)
        assert len(shop.records("%RETRY%shop")) == 1


@pytest.mark.parametrize(("level", "limit"), [(-1, None), (0, 0), (1, -1)])
async def test_a_negative_level_or_a_limit_of_none_is_the_end_at_once(tmp_path: Path, level: int, limit: int | None):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        await shop.send_back(order.physical_offset, level, max_reconsume_times=limit)
        (dead,) = shop.records("%DLQ%shop")
        assert dead.reconsume_times == 1
        topic = shop.broker.topics.get("%DLQ%shop")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


async def test_the_groups_limit_counts_where_the_consumer_names_none(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        await shop.group(retry_max_times=0)
        order = await shop.order()
        await shop.send_back(order.physical_offset)
        assert len(shop.records("%DLQ%shop")) == 1
        await shop.send_back(order.physical_offset, 1, max_reconsume_times=5)
        shop.pass_ms(1_000)
        assert len(shop.records("%RETRY%shop")) == 1


async def test_the_retry_topic_has_as_many_queues_as_its_group_says(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        await shop.group(retry_queue_nums=3)
        order = await shop.order()
        for _ in range(40):
            await shop.send_back(order.physical_offset, 1)
        shop.pass_ms(1_000)
        assert [len(shop.records("%RETRY%shop", queue)) > 0 for queue in range(4)] == [True, True, True, False]


async def test_a_retry_topic_that_is_smaller_than_its_group_says_by_now_gets_messages_where_they_are_read(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        await shop.send_back(order.physical_offset, 1)
        await shop.group(retry_queue_nums=8)
        for _ in range(20):
            await shop.send_back(order.physical_offset, 1)
        shop.pass_ms(1_000)
        assert len(shop.records("%RETRY%shop", 0)) == 21


async def test_a_group_without_retry_queues_wants_nothing_back(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        await shop.group(retry_queue_nums=0)
        order = await shop.order()
        await shop.send_back(order.physical_offset, 1)
        shop.pass_ms(100_000)
        assert shop.records("%RETRY%shop") == []
        assert "%RETRY%shop" not in shop.broker.topics


async def test_what_is_not_there_cannot_come_back(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        for offset in (order.physical_offset + 7, 10**12, -5):
            answer = await shop.back(offset)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert str(offset) in (answer.remark or "")


async def test_a_group_that_does_not_exist_gets_nothing(tmp_path: Path):
    async with running_shop(tmp_path, auto_create_group=False) as shop:
        order = await shop.order()
        assert (await shop.back(order.physical_offset)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        answer = await shop.send("%RETRY%shop", b"x", reconsume_times=1)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_broker_that_may_not_be_written_takes_nothing_back(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        await shop.broker.settings.change({"brokerPermission": "4"})
        assert (await shop.back(order.physical_offset)).code == ResponseCode.NO_PERMISSION


async def test_a_group_that_may_not_consume_may_still_send_back(tmp_path: Path):
    """It consumed before that was so."""
    async with running_shop(tmp_path) as shop:
        await shop.group(consume_enable=False)
        order = await shop.order()
        await shop.send_back(order.physical_offset, 1)
        shop.pass_ms(1_000)
        assert len(shop.records("%RETRY%shop")) == 1


# --- the client's own way


async def test_a_message_that_a_client_sends_to_its_retry_topic_waits_and_comes(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        properties = {"DELAY": "4", "RETRY_TOPIC": "orders"}
        await shop.send("%RETRY%shop", b"again", properties=properties, reconsume_times=1, max_reconsume_times=3)
        shop.pass_ms(29_999)
        assert shop.records("%RETRY%shop") == []
        shop.pass_ms(1)
        (again,) = shop.records("%RETRY%shop")
        assert (again.body, again.reconsume_times) == (b"again", 1)


@pytest.mark.parametrize(("tried", "limit", "is_dead"), [(3, 3, False), (4, 3, True), (16, None, False), (17, None, True)])
async def test_a_message_that_a_client_sends_too_often_is_a_dead_letter(
    tmp_path: Path, tried: int, limit: int | None, is_dead: bool
):
    async with running_shop(tmp_path) as shop:
        properties = {"DELAY": "1", "RETRY_TOPIC": "orders"}
        await shop.send("%RETRY%shop", b"again", properties=properties, reconsume_times=tried, max_reconsume_times=limit)
        shop.pass_ms(1_000)
        assert (len(shop.records("%DLQ%shop")), len(shop.records("%RETRY%shop"))) == ((1, 0) if is_dead else (0, 1))
        if is_dead:
            assert decode_properties(shop.records("%DLQ%shop")[0].properties)["DELAY"] == "-1"


async def test_a_group_that_consumes_in_order_sends_only_what_it_has_given_up(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        queue = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
        lock = LockBatchRequestBody(consumer_group="shop", client_id="c", mq_set=[queue])
        await shop.ask(RequestCode.LOCK_BATCH_MQ, body=encode(lock))
        await shop.send("%RETRY%shop", b"again", properties={"DELAY": "3"}, reconsume_times=2, max_reconsume_times=16)
        assert len(shop.records("%DLQ%shop")) == 1


async def test_a_retry_topic_is_made_even_where_topics_are_not_made_by_sending(tmp_path: Path):
    async with running_shop(tmp_path, auto_create_topic=False) as shop:
        answer = await shop.send("%RETRY%shop", b"again", reconsume_times=1)
        assert answer.code == ResponseCode.SUCCESS
        topic = shop.broker.topics.get("%RETRY%shop")
        assert topic is not None
        assert (topic.read_queue_nums, topic.perm) == (1, 6)


async def test_batches_neither_come_back_nor_wait(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        code = RequestCode.SEND_BATCH_MESSAGE
        assert (await shop.send("%RETRY%shop", b"x", code=code, batch=True)).code == ResponseCode.MESSAGE_ILLEGAL
        answer = await shop.send("orders", b"x", code=code, batch=True, properties={"DELAY": "3"})
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL


# --- the whole


async def test_delays_and_retries_go_on_after_a_restart(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        order = await shop.order()
        await shop.send_back(order.physical_offset)
        await shop.send("orders", b"later", properties={"DELAY": "2"}, queue_id=1)
        shop.pass_ms(5_000)
        assert shop.records("orders", 1)[-1].body == b"later"
    async with running_shop(tmp_path) as shop:
        shop.pass_ms(10_000)
        assert [record.body for record in shop.records("%RETRY%shop")] == [b"order"]
        assert [record.body for record in shop.records("orders", 1)] == [b"order", b"later"], "delivered twice"


async def test_with_sync_flush_an_answer_means_that_the_message_is_on_disk(tmp_path: Path):
    async with running_shop(tmp_path, sync_flush=True) as shop:
        order = await shop.order()
        await shop.send_back(order.physical_offset, 1)
        horizon = shop.broker.store.horizon
        assert horizon.flushed == horizon.appended


async def test_the_offsets_of_the_levels_are_told_to_who_asks(tmp_path: Path):
    async with running_shop(tmp_path) as shop:
        await shop.send("orders", b"later", properties={"DELAY": "2"})
        shop.pass_ms(5_000)
        shop.broker.store.flush()
        answer = await shop.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert b'"offsetTable":{2:1}' in answer.body

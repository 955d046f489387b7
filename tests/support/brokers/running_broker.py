"""A broker in this process, and requests to it over a real connection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from skyrocket.broker.broker import Broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.dialer import Dialer
from skyrocket.protocol.bodies import ConsumerData, HeartbeatData, SubscriptionData
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import PullMessageRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record, iterate_records
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocket.store.files import Files
from tests.support.waiting import WAIT_S_MAX

SMALL = BrokerSettings(
    port=0,
    segment_bytes=4 * 1024 * 1024,
    queue_file_bytes=2000,
    index_slots=100,
    index_entries=1000,
    timer_wheel_slots=4_096,
    timer_log_file_bytes=64 * 1024,
    disk_max_used_percent=95,
    disk_clean_forcibly_percent=95,
    disk_warning_percent=95,
)


class RunningBroker:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.dialer = Dialer()

    @property
    def address(self) -> str:
        return self.broker.settings().address

    async def ask(self, code: int, header: Any = None, body: bytes = b"", **given: Any) -> Command:
        fields = header.to_fields() if header is not None else None
        return await self.dialer.request(self.address, Command(code, fields=fields, body=body, **given), 5_000)

    async def send(self, topic: str, body: bytes, *, code: int = RequestCode.SEND_MESSAGE_V2, **given: Any) -> Command:
        return await self.ask(code, send_header(topic, **given), body)

    async def pull(self, topic: str, offset: int, **given: Any) -> Command:
        serialization = given.pop("serialization", Serialization.JSON)
        return await self.ask(RequestCode.PULL_MESSAGE, pull_header(topic, offset, **given), serialization=serialization)

    async def heartbeat(self, group: str, *, version: int = 1, **subscriptions: str) -> Command:
        data = ConsumerData(
            group_name=group,
            subscription_data_set=[
                SubscriptionData(
                    topic=topic,
                    sub_string=expression,
                    tags_set=[] if expression == "*" else expression.split(" || "),
                    code_set=[] if expression == "*" else [tags_code(tag) for tag in expression.split(" || ")],
                    sub_version=version,
                )
                for topic, expression in subscriptions.items()
            ],
        )
        body = encode(HeartbeatData(client_id="client-1", consumer_data_set=[data]))
        return await self.ask(RequestCode.HEART_BEAT, body=body)

    async def wait_for_bodies(self, topic: str, count: int) -> list[bytes]:
        """Pull the first messages of queue 0 until there are this many. Return their bodies."""
        async with asyncio.timeout(WAIT_S_MAX):
            while len(bodies := [record.body for record in records(await self.pull(topic, 0))]) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return bodies

    async def oneway(self, topic: str, body: bytes, **given: Any) -> None:
        connection = await self.dialer.connection(self.address)
        fields = send_header(topic, **given).to_fields()
        connection.oneway(Command(RequestCode.SEND_MESSAGE_V2, fields=fields, body=body, flag=ONEWAY_FLAG))


def send_header(
    topic: str, queue_id: int = 0, properties: dict[str, str] | None = None, **given: Any
) -> SendMessageRequestHeaderV2:
    values = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": 1_000,
        "flag": 0,
        "properties": encode_properties(properties or {}).decode(),
    }
    return SendMessageRequestHeaderV2(**values | given)


def pull_header(topic: str, offset: int, *, tags: str = "*", hold_ms: int = 0, **given: Any) -> PullMessageRequestHeader:
    values = {
        "consumer_group": "consumers",
        "topic": topic,
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": PULL_SUBSCRIPTION | (PULL_SUSPEND if hold_ms else 0),
        "commit_offset": 0,
        "suspend_timeout_millis": hold_ms,
        "subscription": tags,
        "sub_version": 0,
        "expression_type": "TAG",
    }
    return PullMessageRequestHeader(**values | given)


def records(response: Command) -> list[Record]:
    return list(iterate_records(response.body))


@asynccontextmanager
async def running(path: Path, files: Files | None = None, **changes: Any):
    broker = Broker(replace(SMALL, store_path=str(path / "store"), **changes), files=files)
    await broker.start()
    served = RunningBroker(broker)
    try:
        yield served
    finally:
        await served.dialer.close()
        await broker.close()

"""A nameserver and a broker for the client's tests, ours or Apache's, and a reader that is independent of the consumers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skyrocket.client.options import ClientOptions
from skyrocket.client.received import Received
from skyrocket.client.session.session import Session
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION
from tests.support.apache.cluster import ApacheCluster, JavaProcess
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, Skyrocket
from tests.support.waiting import WAIT_S_MAX

BROKER = "broker-a"
QUICK_CHECKS = {"transactionTimeOut": 1_000, "transactionCheckInterval": 1_000, "recallMessageEnable": "true"}
CONSUMERS = {"messageDelayLevel": "1s " * 17 + "1s", "enablePropertyFilter": "true"}  # short retry delays, and SQL92 filters
_numbers = itertools.count()

__all__ = ["BROKER", "Servers", "apache_servers", "our_servers", "reader", "until"]


@dataclass
class Servers:
    """A running nameserver and broker."""

    name: str
    nameserver: str
    kill_broker: Callable[[], None]
    start_broker: Callable[[], None]

    def topic(self, what: str) -> str:
        """Return a topic name that no other test uses."""
        return f"{what}-{next(_numbers)}"


@contextmanager
def our_servers(home: Path, **settings: object) -> Iterator[Servers]:
    with Skyrocket(home, {**QUICK_CHECKS, **CONSUMERS, **settings}) as run:
        yield Servers("ours", run.nameserver, run.kill, run.start)
        assert run.complaints() == [], run.log_tail(100)


@contextmanager
def apache_servers(home: Path, **settings: object) -> Iterator[Servers]:
    with ApacheCluster(home) as cluster:
        own = {"brokerName": BROKER, "listenPort": free_port(-2, 1)}
        settings = {**SMALL_STORE, **QUICK_CHECKS, **CONSUMERS, **own, **settings}
        brokers: list[JavaProcess] = []

        def start() -> None:
            brokers.append(cluster.broker(home / "store", settings))

        def kill() -> None:
            brokers.pop().kill()

        start()
        yield Servers("apache", cluster.nameserver, kill, start)


@asynccontextmanager
async def reader(servers: Servers) -> AsyncIterator[Reader]:
    session = await Session.acquire(ClientOptions(servers.nameserver, instance=f"reader{next(_numbers)}"))
    try:
        yield Reader(session)
    finally:
        await session.release()


class Reader:
    """Reads queues with pull requests, without joining a consumer group."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def all(self, topic: str) -> list[Received]:
        """Return all messages in the topic's queues now, queue by queue."""
        self.session.routes.forget(topic)
        route = await self.session.route(topic)
        found: list[Received] = []
        for queue in route.to_read if route is not None else ():
            address = self.session.routes.any_address(queue.broker_name)
            assert address is not None
            offset = 0
            while True:
                response = await self.session.request(address, pull(topic, queue.queue_id, offset))
                if response.code == ResponseCode.PULL_OFFSET_MOVED and int(response.fields["nextBeginOffset"]) > offset:
                    offset = int(response.fields["nextBeginOffset"])
                    continue
                if response.code != ResponseCode.SUCCESS:
                    break
                records = list(iterate_records(response.body))
                found += [Received(record, broker_name=queue.broker_name) for record in records]
                offset = records[-1].queue_offset + 1
        return found

    async def at_least(self, topic: str, count: int) -> list[Received]:
        """Return all messages once there are `count`. Apache's brokers dispatch a moment after they acknowledge."""
        deadline = time.monotonic() + WAIT_S_MAX
        while len(found := await self.all(topic)) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages are in {topic}"
            await asyncio.sleep(0.02)
        return found


def pull(topic: str, queue_id: int, offset: int) -> Command:
    header = PullMessageRequestHeader(
        consumer_group="CLIENT_TEST_READERS",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return Command(RequestCode.PULL_MESSAGE, fields=header.to_fields())


async def until(is_true: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_true():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_S_MAX} s"
        await asyncio.sleep(0.01)

"""The admin client with two brokers, and with one of them unreachable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.client import Admin, ClientLimits, Message, NotFoundError, Producer, Queue, UnreachableError
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from tests.support.brokers.running_broker import SMALL

NAMES = ("broker-a", "broker-b")


class TwoBrokers:
    def __init__(self, nameserver: str, brokers: dict[str, Broker]) -> None:
        self.nameserver = nameserver
        self.brokers = brokers


@asynccontextmanager
async def two_brokers(path: Path) -> AsyncIterator[TwoBrokers]:
    names = Nameserver(NameserverSettings().with_texts({"listenPort": "0", "kvConfigPath": str(path / "kv.json")}))
    await names.start()
    brokers = {
        name: Broker(
            replace(
                SMALL,
                broker_name=name,
                cluster_name=f"cluster-{name[-1]}",
                store_path=str(path / name),
                namesrv_addr=names.address,
                auto_create_group=False,
            )
        )
        for name in NAMES
    }
    try:
        for broker in brokers.values():
            await broker.start()
        yield TwoBrokers(names.address, brokers)
    finally:
        for broker in brokers.values():
            await broker.close()
        await names.close()


async def send_to(cluster: TwoBrokers, topic: str, queue: Queue, body: bytes) -> str:
    async with Producer(cluster.nameserver) as producer:
        return (await producer.send(Message(topic, body, keys=["key"]), queue=queue)).offset_id


async def test_topic_is_created_at_all_or_at_some_brokers(tmp_path: Path):
    async with two_brokers(tmp_path) as cluster, Admin(cluster.nameserver) as admin:
        both = await admin.topics.create("both", queues=2)
        assert [one.broker_name for one in both] == ["broker-a", "broker-b"]
        (one,) = await admin.topics.create("one", brokers=["broker-b"])
        assert one.broker_name == "broker-b"
        (other,) = await admin.topics.create("other", cluster="cluster-a")
        assert other.broker_name == "broker-a"
        assert "one" not in cluster.brokers["broker-a"].topics

        await admin.topics.create("both", write_queues=1, brokers=["broker-a"])
        assert [(row.broker_name, row.write_queues) for row in await admin.topics.get("both")] == [
            ("broker-a", 1),
            ("broker-b", 2),
        ]
        await admin.topics.delete("both")
        assert not any("both" in broker.topics for broker in cluster.brokers.values())
        with pytest.raises(NotFoundError, match="has a master called 'broker-c'"):
            await admin.topics.create("lost", brokers=["broker-a", "broker-c"])


async def test_results_cover_all_brokers(tmp_path: Path):
    async with two_brokers(tmp_path) as cluster, Admin(cluster.nameserver) as admin:
        await admin.topics.create("orders", queues=1)
        queues = [Queue("orders", name, 0) for name in NAMES]
        ids = [await send_to(cluster, "orders", queue, queue.broker_name.encode()) for queue in queues]
        assert [(row.broker_name, row.end_offset) for row in (await admin.topics.status("orders")).queues] == [
            ("broker-a", 1),
            ("broker-b", 1),
        ]
        assert [message.broker_name for message in await admin.messages.by_key("orders", "key")] == list(NAMES)
        assert [(await admin.messages.by_offset_id(one)).body for one in ids] == [b"broker-a", b"broker-b"]
        assert [(await admin.messages.by_offset(queue, 0)).body for queue in queues] == [b"broker-a", b"broker-b"]
        assert [one.body async for one in admin.messages.read("orders")] == [b"broker-a", b"broker-b"]

        await admin.groups.create("coupons")
        assert [row.offset for row in await admin.offsets.reset("coupons", "orders", "last")] == [1, 1]
        assert (await admin.groups.progress("coupons")).lag == 0
        await admin.offsets.set("coupons", {queues[1]: 0})
        assert (await admin.groups.progress("coupons", "orders")).lag == 1


async def test_group_is_deleted_only_at_brokers_that_have_it(tmp_path: Path):
    """Apache's brokers create a group that they are asked to delete."""
    async with two_brokers(tmp_path) as cluster, Admin(cluster.nameserver) as admin:
        await admin.groups.create("here", brokers=["broker-a"])
        assert [one.broker_name for one in await admin.groups.get("here")] == ["broker-a"]
        asked: list[str] = []
        for name, broker in cluster.brokers.items():
            broker.groups.on_change.append(lambda name=name: asked.append(name))
        await admin.groups.delete("here")
        assert asked == ["broker-a"]


async def test_state_of_an_unreachable_broker_has_an_error(tmp_path: Path):
    limits = ClientLimits(request_ms=1_000, reconnect_first_ms=1)
    async with two_brokers(tmp_path) as cluster, Admin(cluster.nameserver, limits=limits) as admin:
        await admin.topics.create("orders", queues=1)
        gone = cluster.brokers["broker-b"]
        address = gone.settings().address
        await gone.server.close()  # as after a crash: the nameserver still has it
        states = {state.broker_name: state for state in await admin.cluster.states()}
        assert states["broker-a"].error == ""
        assert address in states["broker-b"].error
        assert states["broker-b"].version == ""
        with pytest.raises(UnreachableError, match=address):
            await admin.topics.status("orders")

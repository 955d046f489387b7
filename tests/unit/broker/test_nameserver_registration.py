"""The order of registrations and deletions: a registration from before a topic's deletion does not bring the topic back."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from skyrocket.broker.nameserver_registration import NameserverRegistration
from skyrocket.broker.settings import BrokerSettings
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.dialer import Dialer
from skyrocket.net.limits import NetLimits
from skyrocket.protocol.bodies import DataVersion
from skyrocket.protocol.broker_registration import RegistrationEncoder
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import DeleteTopicFromNamesrvRequestHeader, DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import RunningBroker, running
from tests.support.waiting import WAIT_S_MAX

LOOK_S = 0.3  # to see that a deletion is not answered


class HeldEncoder(RegistrationEncoder):
    """Holds each registration between the moment that its topics were read and the moment that it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.is_holding = threading.Event()
        self.may_go_on = threading.Event()

    def encode(self, *given) -> bytes:
        self.is_holding.set()
        assert self.may_go_on.wait(WAIT_S_MAX)
        return super().encode(*given)


async def delete_everywhere(served: RunningBroker, nameserver: Nameserver, topic: str) -> None:
    """Delete a topic as mqadmin does: at the broker, and when that has answered, at the nameserver."""
    assert (await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))).code == 0
    fields = DeleteTopicFromNamesrvRequestHeader(topic=topic).to_fields()
    answer = await served.dialer.request(nameserver.address, Command(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields=fields))
    assert answer.code == ResponseCode.SUCCESS


async def until(is_so) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_registration_under_way_does_not_undo_a_deletion(tmp_path: Path):
    nameserver = Nameserver(NameserverSettings().with_texts({"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")}))
    await nameserver.start()
    # Apache's nameserver remembers no deletions. Neither does this one: the broker alone must keep the order.
    nameserver.table._deleted.add = lambda *_: None
    async with running(tmp_path, namesrv_addr=nameserver.address) as served:
        await served.send("orders", b"x")
        await until(lambda: nameserver.table.route("orders") is not None)
        registration = served.broker._registration
        await until(lambda: not registration._under_way)
        registration._encoder = held = HeldEncoder()
        registration.on_topics_changed()
        await until(held.is_holding.is_set)
        deleting = asyncio.create_task(delete_everywhere(served, nameserver, "orders"))
        await until(lambda: "orders" not in served.broker.topics)
        await asyncio.wait([deleting], timeout=LOOK_S)
        is_answered_early = deleting.done()
        held.may_go_on.set()
        await deleting
        await until(lambda: not registration._under_way and not registration._changed.is_set())
        assert nameserver.table.route("orders") is None
        assert not is_answered_early
    await nameserver.close()


async def test_a_deletion_does_not_wait_for_nameservers_that_do_not_answer():
    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _reader, writer: writers.append(writer), "127.0.0.1", 0)
    settings = BrokerSettings(
        namesrv_addr=f"127.0.0.1:{silent.sockets[0].getsockname()[1]};127.0.0.1:1", register_timeout_ms=60_000
    )
    dialer = Dialer(limits=NetLimits(scan_ms=10))
    registration = NameserverRegistration(
        dialer, lambda: settings, lambda: ({}, DataVersion()), lambda _topics: None, settle_s_max=0.05
    )
    registering = asyncio.create_task(registration.register())
    await until(lambda: writers and "127.0.0.1:1" in registration._unreachable)
    async with asyncio.timeout(WAIT_S_MAX):
        await registration.settle()
    assert not registering.done()
    registering.cancel()
    await asyncio.gather(registering, return_exceptions=True)
    assert not registration._under_way
    await dialer.close()
    for writer in writers:
        writer.transport.abort()
    silent.close()

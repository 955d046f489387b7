"""Brokers in one DLedger group: who takes messages, what is answered, and what the nodes' own ports answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.errors import NetError
from skyrocket.protocol.bodies.dledger import (
    GetEntriesRequest,
    GetEntriesResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    LedgerCode,
    LedgerMessage,
    MetadataRequest,
    MetadataResponse,
)
from skyrocket.protocol.bodies.topics import TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.raft.config import FAST_TIMINGS
from skyrocket.settings.errors import SettingsError
from skyrocket.store.errors import DiskFullError
from skyrocket.store.ledger.ledger_store import LedgerStore
from tests.support.brokers.running_broker import RunningBroker, records, running
from tests.support.ports import free_port
from tests.support.processes.certificates import Authority
from tests.support.waiting import WAIT_S_MAX

TIMINGS = replace(FAST_TIMINGS, heartbeat_ms=700)  # all nodes share a thread, on a machine that may be busy


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 other processes' states have no event
            await asyncio.sleep(0.01)


class NodesInProcess:
    """The nodes of a group, each a broker in this process."""

    def __init__(self, path: Path, count: int, **settings: object) -> None:
        self._path = path
        self._settings = settings
        self.ports = {f"n{number}": free_port() for number in range(count)}
        self._peers = ";".join(f"{node}-127.0.0.1:{port}" for node, port in self.ports.items())
        self._stacks: dict[str, AsyncExitStack] = {}
        self.nodes: dict[str, RunningBroker] = {}

    async def start(self, name: str) -> None:
        stack = AsyncExitStack()
        self.nodes[name] = await stack.enter_async_context(
            running(
                self._path / name,
                dledger=True,
                dledger_group="g",
                dledger_peers=self._peers,
                dledger_self_id=name,
                dledger_timings=TIMINGS,
                slave_read=True,
                broker_name="g",
                **self._settings,
            )
        )
        self._stacks[name] = stack

    async def stop(self, name: str) -> None:
        del self.nodes[name]
        await self._stacks.pop(name).aclose()

    def masters(self) -> list[str]:
        return [name for name, node in self.nodes.items() if not node.broker.roles.is_slave]

    def is_learner(self, name: str) -> bool:
        node = self.nodes[name].broker.node
        return node is None or node.driver.node.is_learner

    async def wait_for_leader(self) -> str:
        await until(lambda: len(self.masters()) == 1)
        return self.masters()[0]

    async def send(self, body: bytes) -> str:
        """Send to whichever node leads, until it is acknowledged: a busy machine may depose a leader. Return that node."""
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                leader = await self.wait_for_leader()
                if (await self.nodes[leader].send("orders", body)).code == ResponseCode.SUCCESS:
                    return leader
                await asyncio.sleep(0.05)

    async def ask_node(self, name: str, code: int, request: LedgerMessage) -> Command:
        node = next(iter(self.nodes.values()))
        return await node.dialer.request(f"127.0.0.1:{self.ports[name]}", Command(code, body=encode(request)), 5_000)


@asynccontextmanager
async def nodes(path: Path, count: int = 3, **settings: object) -> AsyncIterator[NodesInProcess]:
    group = NodesInProcess(path, count, **settings)
    try:
        for name in group.ports:
            await group.start(name)
        yield group
    finally:
        for name in list(group.nodes):
            await group.stop(name)


async def test_the_leader_takes_messages_and_followers_refuse_them_and_serve_reads(tmp_path: Path):
    async with nodes(tmp_path) as group:
        master = group.nodes[leader := await group.send(b"zero")]
        for properties in ({}, {"WAIT": "false"}):
            answer = await master.send("orders", b"one", properties=properties)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert master.broker.store.horizon.confirmed == master.broker.store.log.end  # a majority has it by then
        followers = [node for name, node in group.nodes.items() if name != leader]
        for number, follower in enumerate(followers):
            refused = await follower.send("orders", b"two")
            assert refused.code == ResponseCode.SYSTEM_BUSY, number
            store = follower.broker.store
            await until(lambda store=store: store.horizon.confirmed == master.broker.store.horizon.confirmed)  # type: ignore[misc]
            assert store.queues.next_offset(("orders", 0)) == master.broker.store.queues.next_offset(("orders", 0)) >= 3
        assert master.broker.settings().broker_id == 0
        assert sorted(follower.broker.settings().broker_id for follower in followers) == sorted({1, 2, 3} - {int(leader[1:]) + 1})


async def test_without_a_majority_nothing_is_acknowledged_or_visible_and_all_goes_on_with_it(tmp_path: Path):
    async with nodes(tmp_path) as group:
        master = group.nodes[leader := await group.send(b"kept")]
        await until(lambda: not any(map(group.is_learner, group.nodes)))  # before, a new node's vote counts only with all others
        others = [name for name in group.nodes if name != leader]
        for name in others:
            await group.stop(name)
        unconfirmed = await master.send("orders", b"alone")
        assert unconfirmed.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY), unconfirmed
        await until(lambda: master.broker.roles.is_slave)
        assert (await master.send("orders", b"refused")).code == ResponseCode.SYSTEM_BUSY
        assert {record.body for record in records(await master.pull("orders", 0))} == {b"kept"}
        await group.start(others[0])
        leader = await group.send(b"again")
        bodies = await group.nodes[leader].wait_for_bodies("orders", 2)
        assert bodies[0] == b"kept"
        assert bodies[-1] == b"again"
        assert b"refused" not in bodies


async def test_the_next_leader_has_new_topics_as_they_were_although_no_table_was_copied(tmp_path: Path):
    """A message for queue 3 waited with the delay levels. The next leader gave the topic one queue, and nobody could read it."""
    async with nodes(tmp_path) as group:
        leader = await group.send(b"first")
        created = replace(TopicConfig(), topic_name="later", read_queue_nums=5, write_queue_nums=4, order=True)
        topics = group.nodes[leader].broker.topics
        topics.put(created)
        topics.put(replace(created, topic_name="gone"))
        await until(lambda: "gone" in topics)
        topics.delete("gone")
        waiting = await group.nodes[leader].send("later", b"m", queue_id=3, properties={"DELAY": "1"})
        assert waiting.code == ResponseCode.SUCCESS, waiting
        await until(lambda: not any(map(group.is_learner, group.nodes)) and "gone" not in topics)
        await group.send(b"last")
        await group.stop(leader)
        following = group.nodes[await group.wait_for_leader()].broker
        assert following.topics.get("later") == created
        assert following.topics.get("orders") == topics.get("orders")
        assert "gone" not in following.topics


async def test_a_group_of_one_leads_itself_and_keeps_its_messages(tmp_path: Path):
    group = NodesInProcess(tmp_path, 1)
    for number in range(2):
        await group.start("n0")
        leader = await group.wait_for_leader()
        assert (await group.nodes[leader].send("orders", b"%d" % number)).code == ResponseCode.SUCCESS
        assert await group.nodes[leader].wait_for_bodies("orders", number + 1) == [b"0", b"1"][: number + 1]
        await group.stop("n0")


async def test_the_nodes_port_answers_tools_with_code_200_and_dledgers_bodies(tmp_path: Path):
    async with nodes(tmp_path, 1) as group:
        await group.wait_for_leader()
        await group.nodes["n0"].send("orders", b"one")
        ids = {"group": "g", "local_id": "tool", "remote_id": "n0"}
        answer = await group.ask_node("n0", RequestCode.DLEDGER_METADATA, MetadataRequest(**ids))
        assert answer.code == LedgerCode.SUCCESS
        metadata = decode(answer.body, MetadataResponse)
        assert (metadata.leader_id, metadata.peers) == ("n0", {"n0": f"127.0.0.1:{group.ports['n0']}"})
        bodies = []
        for index in range(2):
            found = await group.ask_node("n0", RequestCode.DLEDGER_GET, GetEntriesRequest(**ids, begin_index=index))
            entries = decode(found.body, GetEntriesResponse).entries
            assert entries is not None
            bodies.append(decode_record(entries[0].body).body)
        assert bodies[1] == b"one"
        assert b'"orders"' in bodies[0], "the change of topics comes before the message"
        beyond = await group.ask_node("n0", RequestCode.DLEDGER_GET, GetEntriesRequest(**ids, begin_index=7))
        assert decode(beyond.body, GetEntriesResponse).code == LedgerCode.INDEX_OUT_OF_RANGE


async def test_a_node_of_another_group_and_a_stranger_are_refused(tmp_path: Path):
    async with nodes(tmp_path, 1) as group:
        await group.wait_for_leader()
        for ids, code in (
            ({"group": "other", "remote_id": "n0"}, LedgerCode.UNKNOWN_GROUP),
            ({"group": "g", "remote_id": "n5"}, LedgerCode.UNKNOWN_MEMBER),
        ):
            request = HeartBeatRequest(**ids, local_id="n9", leader_id="n9", term=99)
            answer = await group.ask_node("n0", RequestCode.DLEDGER_HEART_BEAT, request)
            assert decode(answer.body, HeartBeatResponse).code == code
        assert (await group.nodes["n0"].send("orders", b"one")).code == ResponseCode.SUCCESS


async def test_a_follower_whose_disk_was_full_goes_on_by_itself_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with nodes(tmp_path) as group:
        leader = await group.send(b"first")
        await until(lambda: not any(map(group.is_learner, group.nodes)))
        name = next(name for name in group.nodes if name != leader)
        broker = group.nodes[name].broker
        store = broker.store
        assert isinstance(store, LedgerStore)
        assert broker.node is not None
        broker.node.driver._rest_ms = 100
        full = DiskFullError("The disk is 99 % full.")
        appended = store.append_entries
        store.append_entries = lambda _entries: (_ for _ in ()).throw(full)  # type: ignore[method-assign]
        end = store.end_index
        await group.send(b"second")
        await until(lambda: any("takes no part in group 'g' any more: The disk is 99 % full" in said for said in caplog.messages))
        assert store.end_index == end
        store.append_entries = appended  # type: ignore[method-assign]
        await group.send(b"third")
        await until(lambda: group.nodes[name].broker.store.queues.next_offset(("orders", 0)) >= 3)
        assert any("takes part in its group again" in said for said in caplog.messages)


async def test_nodes_with_certificates_speak_tls_and_close_plain_connections(tmp_path: Path):
    authority = Authority.make(tmp_path / "ca")
    own = authority.certificate("node")
    tls = {"tls_certificate": str(own.path), "tls_key": str(own.key), "tls_mode": "permissive", "dledger_tls": True}
    mutual = {"tls_client_certificates": ssl.CERT_REQUIRED, "tls_trusted": str(authority.path)}
    async with nodes(tmp_path, **tls, **mutual, tls_client_trusted=str(authority.path)) as group:
        await group.send(b"sealed")
        followers = [name for name in group.nodes if name not in group.masters()]
        await until(lambda: all(group.nodes[name].broker.store.horizon.confirmed > 0 for name in followers))
        with pytest.raises(NetError):
            await group.ask_node(followers[0], RequestCode.DLEDGER_METADATA, MetadataRequest(group="g", remote_id=followers[0]))


def test_nodes_speak_tls_where_the_broker_does_and_need_a_certificate():
    assert BrokerSettings(tls_certificate="c", tls_key="k").uses_dledger_tls
    assert not BrokerSettings(tls_certificate="c", tls_key="k", dledger_tls=False).uses_dledger_tls
    group = {"enableDLegerCommitLog": "true", "dLegerGroup": "g", "dLegerPeers": "n0-127.0.0.1:40911", "dLegerSelfId": "n0"}
    with pytest.raises(SettingsError, match=r"tls\.dledger\.enable needs tls\.server\.certPath"):
        BrokerSettings().with_texts({**group, "tls.dledger.enable": "true"})

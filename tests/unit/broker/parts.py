"""The broker's tables and handlers on a store in memory, with clocks that a test sets and connections that record."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import replace
from typing import Any, TypeVar, cast

from skyrocket.broker.admin.install import install as install_admin
from skyrocket.broker.clients.install import install as install_clients
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.command import Command, decode_command, encode_command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.frame import FrameSplitter
from skyrocket.protocol.language import Language
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.message_store import MessageStore
from tests.support.brokers.broker_context import a_context
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import a_message, an_open_store

WALL_MS = 1_700_000_100_000
B = TypeVar("B")


class Peer:
    """The other end of a connection: records what it receives, and answers requests from a list."""

    def __init__(self, port: int = 40_001) -> None:
        self.is_full = False
        self.must_stop = False
        self.peer_text = f"10.0.0.7:{port}"
        self.sent: list[Command] = []
        self.told: list[Command] = []
        self.asked: list[Command] = []
        self.answers: list[Command | NetError] = []
        self.closed: str | None = None

    def send(self, data: Any) -> None:
        frames = FrameSplitter().feed(data if isinstance(data, bytes) else b"".join(data))
        self.sent += map(decode_command, frames)

    send_now = send

    def send_command(self, command: Command) -> None:
        self.send(encode_command(command))

    def oneway(self, command: Command) -> None:
        self.told.append(command)

    def request(self, command: Command, timeout_ms: int | None = None) -> asyncio.Future[Command]:
        self.asked.append(command)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        answer = self.answers.pop(0)
        if isinstance(answer, Command):
            future.set_result(answer)
        else:
            future.set_exception(answer)
        return future

    def close(self, reason: str) -> None:
        self.closed = reason

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)

    @property
    def told_groups(self) -> list[str]:
        """Return the groups whose changes this client was notified of (40)."""
        return [command.fields["consumerGroup"] for command in self.told if command.code == 40]


class Parts:
    def __init__(self, **settings: Any) -> None:
        self.settings_now = replace(BrokerSettings(cluster_name="Lab", broker_name="broker-a"), **settings)
        self.now_ms = 1_000
        self.wall_ms = WALL_MS
        self.store: MessageStore = an_open_store(SimulatedDisk())
        self.peer = Peer()  # sends the requests
        self.context = a_context(self.store, self.settings, self.wall, self.now)
        self.topics = self.context.topics
        self.groups = self.context.groups
        self.offsets = self.context.offsets
        self.clients = self.context.clients
        self.locks = self.context.locks
        self.router = self.context.router
        self.heartbeats = install_clients(self.context)
        install_admin(self.context)

    def settings(self) -> BrokerSettings:
        return self.settings_now

    def now(self) -> int:
        return self.now_ms

    def wall(self) -> int:
        return self.wall_ms

    # --- requests

    def handle(self, command: Command, peer: Peer | None = None) -> Command:
        """Return the router's response."""
        peer = peer or self.peer
        handler = self.router._handlers[command.code]
        if inspect.iscoroutinefunction(handler):
            asyncio.run(self._handle_and_wait(command, peer))
        else:
            self.router.handle(peer.connection, [command])
        return peer.sent.pop()

    async def _handle_and_wait(self, command: Command, peer: Peer) -> None:
        self.router.handle(peer.connection, [command])
        await self.router.drain()

    def ask(self, code: int, body: Any = None, peer: Peer | None = None, **fields: Any) -> Command:
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        packed = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.handle(Command(code, opaque=7, fields=texts, body=packed, language=Language.JAVA), peer)

    def answer(self, body_type: type[B], code: int, body: Any = None, peer: Peer | None = None, **fields: Any) -> B:
        """Return the body of a successful response."""
        response = self.ask(code, body, peer, **fields)
        assert response.code == ResponseCode.SUCCESS, response.remark
        return decode(response.body, body_type)

    # --- preparation

    def a_topic(self, name: str = "orders", queues: int = 2, **more: Any) -> None:
        self.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **more))

    def messages(self, count: int, topic: str = "orders", queue_id: int = 0, *, first_ms: int = WALL_MS, tags: str = "") -> None:
        """Append messages, one a second."""
        for number in range(count):
            self.store.append([a_message(topic, queue_id, tags=tags)], first_ms + number * 1_000)

    def joins(self, group: str, client_id: str = "client-1", peer: Peer | None = None, **more: Any) -> Command:
        return self.ask(34, heartbeat(client_id, group, **more), peer)


def heartbeat(client_id: str, group: str, topics: tuple[str, ...] = ("orders",), version: int = 1, **more: Any) -> dict[str, Any]:
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": more.pop("model", "CLUSTERING"),
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": version} for topic in topics],
        "unitMode": False,
    }
    return {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": [], **more}

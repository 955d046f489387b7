"""A nameserver and broker in one, whose responses a test scripts: responses that a real broker rarely gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import (
    BrokerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    QueueData,
    TopicRouteData,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetResponseHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class ScriptedBroker:
    """A nameserver and broker with one queue of topic `t`. `requests` has the requests that it received, by code."""

    def __init__(self) -> None:
        self.router = Router()
        self.server = Server(self.router)
        self.address = ""
        self.addresses: dict[int, str] = {}
        self.members: list[str] = []
        self.requests: dict[int, list[Command]] = {}
        self.records: list[bytes] = []
        self.suggests = 0
        self.respond(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
        self.respond(RequestCode.HEART_BEAT, self._heartbeat)
        self.respond(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self._members)
        self.respond(RequestCode.QUERY_CONSUMER_OFFSET, lambda c: c.response(0, QueryConsumerOffsetResponseHeader(offset=0)))
        self.respond(RequestCode.PULL_MESSAGE, self._pull)
        for code in (RequestCode.UNREGISTER_CLIENT, RequestCode.UPDATE_CONSUMER_OFFSET):
            self.respond(code, lambda command: command.response(0))

    def respond(self, code: int, how: Callable[[Command], Command | Coroutine[Any, Any, Command]]) -> None:
        """Answer requests of this code with the result of `how`, which may be a coroutine."""

        def handle(command: Command, _connection: object) -> Any:
            self.requests.setdefault(command.code, []).append(command)
            return how(command)

        self.router.add(code, handle)

    def forget(self, code: int) -> None:
        """Remove the handler of a code."""
        del self.router._handlers[code]

    def _route(self, command: Command) -> Command:
        route = TopicRouteData(
            queue_datas=[QueueData(broker_name="scripted", read_queue_nums=1, write_queue_nums=1, perm=6)],
            broker_datas=[BrokerData(cluster="c", broker_name="scripted", broker_addrs=self.addresses)],
        )
        return command.response(0, body=encode(route))

    def _heartbeat(self, command: Command) -> Command:
        self.members = [decode(command.body, HeartbeatData).client_id]
        return command.response(0)

    def _members(self, command: Command) -> Command:
        return command.response(0, body=encode(GetConsumerListByGroupResponseBody(consumer_id_list=self.members)))

    def _pull(self, command: Command) -> Command:
        header = command.header(PullMessageRequestHeader)
        records = self.records[header.queue_offset :] if header.topic == "t" else []
        end = header.queue_offset + len(records)
        response = PullMessageResponseHeader(
            suggest_which_broker_id=self.suggests, next_begin_offset=end, min_offset=0, max_offset=end
        )
        code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
        return command.response(code, response, body=b"".join(records))


@asynccontextmanager
async def scripted_brokers(
    count: int = 1, make: Callable[[], ScriptedBroker] = ScriptedBroker
) -> AsyncIterator[list[ScriptedBroker]]:
    """Run a master and `count` - 1 slaves of the same name."""
    brokers = [make() for _ in range(count)]
    for broker in brokers:
        broker.address = f"127.0.0.1:{await broker.server.listen('127.0.0.1', 0)}"
    for broker in brokers:
        broker.addresses = {number: other.address for number, other in enumerate(brokers)}
    try:
        yield brokers
    finally:
        for broker in brokers:
            await broker.server.close()
        await asyncio.sleep(0)

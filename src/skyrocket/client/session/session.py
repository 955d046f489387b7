"""A session with a cluster: connections, routes and heartbeats, shared by the clients of one event loop with equal options.

    session = await Session.acquire(options)        one more user of it
    session.join(member); await session.leave(member)
    await session.route_to_write(topic)             from the table, or asked for
    await session.ask(address, command)             any request to a broker; the answer may say no
    await session.release()                         the last user closes it

Topics and groups are names on the wire here; who faces a user adds and takes away the namespace.
"""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import Coroutine
from typing import Any

from skyrocket.client.errors import (
    BrokerError,
    ClientClosedError,
    ClientError,
    DisconnectedError,
    NoNameserverError,
    NoRouteError,
    OverloadedError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.client.options import ClientOptions
from skyrocket.client.producer import send_response
from skyrocket.client.producer.in_flight_limit import Gate
from skyrocket.client.session.credentials import signed_fields
from skyrocket.client.session.identity import local_address, new_client_id
from skyrocket.client.session.members import Member, Members
from skyrocket.client.session.nameservers import NameserverChoice, ask_address_server
from skyrocket.client.session.pending_replies import Replies
from skyrocket.client.session.reconnects import Reconnects
from skyrocket.client.session.routes import Route, RouteTable, borrowed
from skyrocket.net import errors as net
from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.router import Router
from skyrocket.net.server import monotonic_ms
from skyrocket.protocol.bodies import TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import GetRouteInfoRequestHeader, UnregisterClientRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC

log = logging.getLogger(__name__)

SUSPECT_MS = 1_000
DEFAULT_TOPIC_QUEUES = 4  # of a topic that is created by its first message

_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Session]] = weakref.WeakKeyDictionary()

_ERRORS: dict[type[net.NetError], type[ClientError]] = {
    net.ConnectError: UnreachableError,
    net.DisconnectedError: DisconnectedError,
    net.RequestTimeoutError: TimedOutError,
    net.OverloadedError: OverloadedError,
}


def client_error(error: net.NetError) -> ClientError:
    """What an error of the network is to a user of the client."""
    return _ERRORS.get(type(error), ClientError)(str(error))


class Session:
    """Used in the loop that made it only."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.limits = options.limits
        self.address = local_address()
        self.client_id = new_client_id(self.address, options.instance)
        self.now_ms = monotonic_ms
        router = Router()
        router.add_express(send_response.START, send_response.take_answers, ResponseCode.SUCCESS)
        self.dialer = Dialer(router, tls=options.tls)
        self.dialer.on_opened.append(self._opened)
        self.members = Members(self.client_id, router)
        self.replies = Replies(router, options.limits.waiting_requests_max)
        self.routes = RouteTable(options.limits.topics_max)
        self.gate = Gate(options.limits.in_flight_max, options.limits.in_flight_max_bytes)
        self._nameservers = NameserverChoice(options.nameservers)
        self._reconnects = Reconnects(options.limits.reconnect_first_ms, options.limits.reconnect_most_ms)
        self._lookups: dict[str, asyncio.Task[Route]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._beating: set[str] = set()  # addresses whose last heartbeat was answered: a change is worth a line in the log
        self._suspected_ms = -SUSPECT_MS
        self._users = 0
        self.consumer_groups: set[str] = set()  # of those who acquired it for one, whether they have joined yet or not
        self._closed = False

    # --- sharing

    @classmethod
    async def acquire(cls, options: ClientOptions, *, consumer_group: str = "") -> Session:
        """The session of this loop with these options, made if there is none. A second consumer of one group gets another
        session: to a broker, members of a group are clients with different ids."""
        sessions = _by_loop.setdefault(asyncio.get_running_loop(), [])
        for session in sessions:
            if session.options == options and consumer_group not in session.consumer_groups:
                break
        else:
            session = cls(options)
            sessions.append(session)
        session._users += 1
        if consumer_group:
            session.consumer_groups.add(consumer_group)
        try:
            await session._started()
        except BaseException:
            await session.release(consumer_group=consumer_group)
            raise
        return session

    async def release(self, *, consumer_group: str = "") -> None:
        """Called once by each who acquired it, with the same group. The last one closes it."""
        self._users -= 1
        self.consumer_groups.discard(consumer_group)
        if self._users > 0 or self._closed:
            return
        self._closed = True
        sessions = _by_loop.get(asyncio.get_running_loop(), [])
        if self in sessions:
            sessions.remove(self)
        tasks = [*self._tasks, *self._lookups.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.gate.close()
        self.replies.close()
        await self.dialer.close()

    async def _started(self) -> None:
        """Where only an address server knows the nameservers, it is asked first."""
        if not self._nameservers.addresses:
            await self._ask_address_server()
        if self._tasks:
            return
        self._every(self.limits.routes_ms, self.refresh_routes)
        self._every(self.limits.heartbeat_ms, self.beat)
        if self.options.address_server:
            self._every(self.limits.address_server_ms, self._ask_address_server)

    def _every(self, period_ms: int, job: Any) -> None:
        async def again() -> None:
            while True:
                await asyncio.sleep(period_ms / 1000)
                try:
                    await job()
                except ClientError as error:
                    log.warning("%s", error)

        self._tasks.append(asyncio.get_running_loop().create_task(again()))

    async def _ask_address_server(self) -> None:
        told = await ask_address_server(self.options.address_server)
        if self._nameservers.replaced(told):
            log.info("The nameservers are %s.", ", ".join(told))

    # --- members

    def join(self, member: Member) -> None:
        """From now on it is part of the heartbeats, the first of which tells the brokers that are known already."""
        self._must_be_open()
        self.members.add(member)
        if self.routes.addresses(slaves=True):
            self.start_task(self.beat())

    async def leave(self, member: Member) -> None:
        """It is no longer; brokers that we are connected with hear of it now."""
        if not self.members.remove(member):
            return
        is_consumer = member.consumer_data is not None
        header = UnregisterClientRequestHeader(
            client_id=self.client_id,
            producer_group=None if is_consumer else member.group,
            consumer_group=member.group if is_consumer else None,
        )
        farewells = [
            self._farewell(address, header)
            for address in self.routes.addresses(slaves=is_consumer)
            if self.dialer.open_connection(address) is not None
        ]
        await asyncio.gather(*farewells)

    async def _farewell(self, address: str, header: Header) -> None:
        try:
            await self.ask(address, Command(RequestCode.UNREGISTER_CLIENT, fields=header.to_fields()), timeout_ms=1_000)
        except ClientError as error:
            log.debug("%s was not told that we leave: %s", address, error)

    # --- heartbeats

    async def beat(self) -> None:
        """Tell every broker that is known who we are. One that does not answer is logged, not raised."""
        if not len(self.members):
            return
        body = encode(self.members.heartbeat())
        addresses = self.routes.addresses(slaves=self.members.have_consumers)
        self._beating.intersection_update(addresses)
        await asyncio.gather(*(self._beat(address, body) for address in addresses))

    async def _beat(self, address: str, body: bytes) -> None:
        if self._reconnects.wait_ms(address, self.now_ms()):
            return  # it was not there a moment ago; the next heartbeat, or who needs it, will see
        try:
            answer = await self.ask(address, Command(RequestCode.HEART_BEAT, body=body))
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerError(answer.code, answer.remark or "", address)
        except ClientError as error:
            if address in self._beating:
                self._beating.discard(address)
                log.warning("The broker at %s does not take heartbeats: %s", address, error)
        else:
            self._beating.add(address)

    def _opened(self, address: str, connection: Connection) -> None:
        """A broker forgets a client when its connection ends, so the first thing that a new one carries is a heartbeat."""
        self._reconnects.connected(address)
        if not len(self.members) or not self.routes.is_broker(address):
            return
        command = Command(RequestCode.HEART_BEAT, body=encode(self.members.heartbeat()))
        answer = connection.request(self.signed(command), self.limits.request_ms)
        answer.add_done_callback(lambda done: self._greeted(address, done))

    def _greeted(self, address: str, answer: asyncio.Future[Command]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            self._beating.add(address)
            self.members.connected(address)

    # --- asking

    def signed(self, command: Command) -> Command:
        if self.options.credentials is not None:
            command.fields = signed_fields(command.fields, command.body, self.options.credentials)
        return command

    async def connection(self, address: str, deadline_ms: int) -> Connection:
        """An open connection, made if there is none. After failures it is tried less and less often; until then, we wait."""
        found = self.dialer.open_connection(address)
        if found is not None:
            return found
        self._must_be_open()
        now_ms = self.now_ms()
        wait_ms = self._reconnects.wait_ms(address, now_ms)
        if now_ms + wait_ms >= deadline_ms:
            raise UnreachableError(f"{address} could not be reached, and the time given is too short to try again.")
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        try:
            async with asyncio.timeout((deadline_ms - self.now_ms()) / 1000):
                return await self.dialer.connection(address)
        except net.NetError as error:
            self._reconnects.failed(address, self.now_ms())
            raise client_error(error) from error
        except TimeoutError as error:
            raise UnreachableError(f"{address} could not be reached in the time given.") from error

    async def ask(self, address: str, command: Command, *, timeout_ms: int | None = None) -> Command:
        """The answer, whatever it says. Raises when there is none: UnreachableError, DisconnectedError, TimedOutError."""
        deadline_ms = self.now_ms() + (self.limits.request_ms if timeout_ms is None else timeout_ms)
        connection = await self.connection(address, deadline_ms)
        try:
            return await connection.request(self.signed(command), max(1, deadline_ms - self.now_ms()))
        except net.NetError as error:
            raise client_error(error) from error

    async def ask_for(
        self, address: str, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int | None = None
    ) -> Command:
        """The same for who needs a yes: BrokerError when the answer is another."""
        fields = header.to_fields() if header is not None else None
        answer = await self.ask(address, Command(code, fields=fields, body=body), timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address)
        return answer

    @property
    def nameservers(self) -> tuple[str, ...]:
        """All that are known, for what each of them has to be told."""
        return self._nameservers.addresses

    async def tell(self, address: str, command: Command, *, timeout_ms: int | None = None) -> None:
        """Sent, and nothing more is known of it."""
        deadline_ms = self.now_ms() + (self.limits.request_ms if timeout_ms is None else timeout_ms)
        (await self.connection(address, deadline_ms)).oneway(self.signed(command))

    async def ask_nameserver(self, code: int, header: Header | None = None, *, timeout_ms: int | None = None) -> Command:
        """The answer of the first nameserver that gives one, whatever it says."""
        deadline_ms = self.now_ms() + (self.limits.request_ms if timeout_ms is None else timeout_ms)
        fields = header.to_fields() if header is not None else None
        reasons: list[str] = []
        for address in self._nameservers.in_turn():
            left_ms = deadline_ms - self.now_ms()
            if left_ms <= 0:
                break
            try:
                return await self.ask(address, Command(code, fields=fields), timeout_ms=left_ms)
            except ClientClosedError:
                raise
            except ClientError as error:
                self._nameservers.failed(address)
                reasons.append(str(error))
        told = " ".join(reasons) or f"The address server {self.options.address_server} has told none."
        raise NoNameserverError(f"No nameserver answers. {told}")

    # --- routes

    async def route(self, topic: str, *, timeout_ms: int | None = None) -> Route | None:
        """What is known of a topic, or what a nameserver says; None when it knows none."""
        found = self.routes.route(topic)
        if found is not None:
            return found
        data = await self._route_data(topic, timeout_ms)
        return self._learnt(topic, data) if data is not None else None

    async def route_to_write(self, topic: str, *, timeout_ms: int | None = None) -> Route:
        """A route with queues that take messages. A topic that nobody knows is about to be created, at the brokers that do
        such things. NoRouteError when there are none."""
        found = self.routes.route(topic)
        if found is not None and found.to_write:
            return found
        task = self._lookups.get(topic)
        if task is None:
            task = self._lookups[topic] = asyncio.get_running_loop().create_task(self._look_up(topic))
            task.add_done_callback(lambda done: self._looked_up(topic, done))
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await asyncio.shield(task)
        except TimeoutError as error:
            sentence = f"No nameserver told the route of topic '{topic}' in {timeout_ms} ms; nothing was sent."
            raise TimedOutError(sentence) from error

    def _looked_up(self, topic: str, done: asyncio.Task[Route]) -> None:
        self._lookups.pop(topic, None)
        if not done.cancelled():
            done.exception()  # whoever asked may be gone

    async def _look_up(self, topic: str) -> Route:
        data = await self._route_data(topic)
        if data is not None:
            route = self._learnt(topic, data)
            if not route.to_write:
                sentence = f"Topic '{topic}' has no queue that takes messages: none may be written, or no master is up."
                raise NoRouteError(sentence, topic)
            return route
        default = await self._route_data(DEFAULT_TOPIC)
        if default is None:
            raise NoRouteError(f"The nameservers know no topic '{topic}', and no broker that would create it.", topic)
        route = self._learnt(topic, borrowed(default, DEFAULT_TOPIC_QUEUES), is_borrowed=True)
        if not route.to_write:
            raise NoRouteError(f"The nameservers know no topic '{topic}', and no broker is up that would create it.", topic)
        return route

    async def refresh_routes(self) -> None:
        """Of all topics in use. What is known stays when no nameserver answers, and when they no longer know a topic."""
        for topic in dict.fromkeys([*self.routes.topics, *self.members.topics()]):
            data = await self._route_data(topic)
            if data is not None:
                self._learnt(topic, data)
        self.routes.forget_unused_brokers()

    def refresh_soon(self, topic: str) -> None:
        """A broker of this topic failed: perhaps the nameservers know better by now. At most once a second."""
        now_ms = self.now_ms()
        if topic in self._lookups or now_ms - self._suspected_ms < SUSPECT_MS:
            return
        self._suspected_ms = now_ms
        self.start_task(self._refresh(topic))

    async def _refresh(self, topic: str) -> None:
        try:
            data = await self._route_data(topic)
        except ClientError as error:
            log.debug("The route of topic '%s' stays as it was: %s", topic, error)
            return
        if data is not None:
            self._learnt(topic, data)

    async def _route_data(self, topic: str, timeout_ms: int | None = None) -> TopicRouteData | None:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        answer = await self.ask_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=timeout_ms)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", "The nameserver")
        return decode(answer.body, TopicRouteData)

    def _learnt(self, topic: str, data: TopicRouteData, *, is_borrowed: bool = False) -> Route:
        if self.routes.updated(topic, data, is_borrowed=is_borrowed):
            self.members.route_changed(topic)
        route = self.routes.route(topic)
        assert route is not None
        return route

    # ---

    def _must_be_open(self) -> None:
        if self._closed:
            raise ClientClosedError("The client is closed.")

    def start_task(self, job: Coroutine[Any, Any, None]) -> None:
        """Runs beside everything else, and is cancelled when the session closes."""
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)


def _forked() -> None:
    """In the child: sessions are the parent's, whose loop does not run here. Who wants one makes a new one."""
    for sessions in _by_loop.values():
        for session in sessions:
            session._closed = True
            session.dialer.abandon()
        sessions.clear()


os.register_at_fork(after_in_child=_forked)

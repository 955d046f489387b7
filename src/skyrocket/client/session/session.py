"""A session with a cluster: connections, routes and heartbeats, shared by the clients of one event loop with equal options.

    session = await Session.acquire(options)        one more user of the session
    session.join(member); await session.leave(member)
    await session.route_to_write(topic)             from the route cache, or from a nameserver
    await session.request(address, command)         any request to a broker; the response may be a refusal
    await session.release()                         the last user closes the session

Topics and groups are names on the wire here. Producers, consumers and `Admin` add and remove the namespace.
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
from skyrocket.client.session import send_responses
from skyrocket.client.session.back_pressure import BackPressure
from skyrocket.client.session.credentials import sign_fields
from skyrocket.client.session.identity import local_address, new_client_id
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.client.session.members import SessionMember, SessionMembers
from skyrocket.client.session.nameservers import NameserverRotation, fetch_nameservers
from skyrocket.client.session.pending_replies import PendingReplies
from skyrocket.client.session.proxy_failures import check_proxy
from skyrocket.client.session.reconnects import ReconnectBackoff
from skyrocket.client.session.routes import Route, RouteCache, limit_queues
from skyrocket.clock import monotonic_ms
from skyrocket.net import errors as net
from skyrocket.net.connection import Connection
from skyrocket.net.dialer import FRAMES_BEFORE_FIRST_ANSWER, Dialer
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import GetRouteInfoRequestHeader, UnregisterClientRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC

log = logging.getLogger(__name__)

REFRESH_MS_MIN = 1_000  # between two route refreshes that refused sends cause
REFRESH_AWAY_MS_MIN = 200  # likewise, when a broker is away: another node of its group may be the master soon
DEFAULT_TOPIC_QUEUES = 4  # of a topic that its first message creates
_EVERY_NAMESERVER_SERVES = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_KV_CONFIG,
    }
)

_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Session]] = weakref.WeakKeyDictionary()

_ERRORS: dict[type[net.NetError], type[ClientError]] = {
    net.ConnectError: UnreachableError,
    net.ConnectionLostError: DisconnectedError,
    net.RequestTimeoutError: TimedOutError,
    net.TooManyRequestsError: OverloadedError,
}


def client_error(error: net.NetError) -> ClientError:
    """Translate an error of the network layer into the client's error."""
    return _ERRORS.get(type(error), ClientError)(str(error))


class Session:
    """Connections, routes and heartbeats. Use it only in the event loop that created it."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.limits = options.limits
        self.address = local_address()
        self.client_id = new_client_id(self.address, options.instance)
        self.now_ms = monotonic_ms
        router = Router()
        router.add_fast_path(send_responses.START, send_responses.take_send_responses, ResponseCode.SUCCESS)
        self.dialer = Dialer(router, tls=options.tls)
        self.dialer.on_opened.append(self._on_connection_opened)
        self.members = SessionMembers(self.client_id, router)
        self.replies = PendingReplies(router, options.limits.waiting_requests_max)
        self.routes = RouteCache(options.limits.topics_max)
        self.back_pressure = BackPressure(self.now_ms)
        self.in_flight = InFlightLimit(options.limits.in_flight_max, options.limits.in_flight_max_bytes)
        self._nameservers = NameserverRotation(options.nameservers)
        self._reconnects = ReconnectBackoff(options.limits.reconnect_first_ms, options.limits.reconnect_most_ms)
        self._lookups: dict[str, asyncio.Task[Route]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._alive: set[str] = set()  # addresses that answered the last heartbeat: only a change is logged
        self._refreshed_ms = -REFRESH_MS_MIN
        self._users = 0
        self.consumer_groups: set[str] = set()  # groups for which the session was acquired, joined or not
        self._closed = False

    # --- sharing

    @classmethod
    async def acquire(cls, options: ClientOptions, *, consumer_group: str = "") -> Session:
        """Return this loop's session with equal options, and create it when there is none.

        A second consumer of the same group gets another session, because a broker tells the members of a group apart by client
        id.
        """
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
            await session._start()
        except BaseException:
            await session.release(consumer_group=consumer_group)
            raise
        return session

    async def release(self, *, consumer_group: str = "") -> None:
        """Give the session back: once for each `acquire`, with the same group. The last release closes it."""
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
        self.in_flight.close()
        self.back_pressure.close()
        self.replies.close()
        await self.dialer.close()

    async def _start(self) -> None:
        """Fetch the nameservers' addresses when only an address server has them, and start the periodic jobs."""
        if not self._nameservers.addresses:
            await self._refresh_nameservers()
        if self._tasks:
            return
        self._repeat(self.limits.routes_ms, self.refresh_routes)
        self._repeat(self.limits.heartbeat_ms, self.send_heartbeats)
        if self.options.address_server:
            self._repeat(self.limits.address_server_ms, self._refresh_nameservers)

    def _repeat(self, period_ms: int, job: Any) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(period_ms / 1000)
                try:
                    await job()
                except ClientError as error:
                    log.warning("%s", error)

        self._tasks.append(asyncio.get_running_loop().create_task(run()))

    async def _refresh_nameservers(self) -> None:
        addresses = await fetch_nameservers(self.options.address_server)
        if self._nameservers.replace(addresses):
            log.info("The address server lists these nameservers: %s.", ", ".join(addresses))

    # --- members

    def join(self, member: SessionMember) -> None:
        """Add a producer or consumer to the heartbeats, and send one to the brokers that are known already."""
        self._must_be_open()
        self.members.add(member)
        if self.routes.addresses(slaves=True):
            self.start_task(self.send_heartbeats())

    async def leave(self, member: SessionMember) -> None:
        """Remove a member from the heartbeats, and unregister its group at connected brokers if it was the last of its kind."""
        if not self.members.remove(member):
            return
        is_consumer = member.consumer_data is not None
        header = UnregisterClientRequestHeader(
            client_id=self.client_id,
            producer_group=None if is_consumer else member.group,
            consumer_group=member.group if is_consumer else None,
        )
        connected = [
            address for address in self.routes.addresses(slaves=is_consumer) if self.dialer.open_connection(address) is not None
        ]
        await asyncio.gather(*(self._unregister(address, header) for address in connected))

    async def _unregister(self, address: str, header: Header) -> None:
        try:
            await self.request(address, Command(RequestCode.UNREGISTER_CLIENT, fields=header.to_fields()), timeout_ms=1_000)
        except ClientError as error:
            log.debug("The client could not be unregistered at %s: %s", address, error)

    # --- heartbeats

    async def send_heartbeats(self) -> None:
        """Send a heartbeat to every known broker. A broker that does not answer is logged; no error is raised."""
        if not len(self.members):
            return
        body = encode(self.members.heartbeat())
        addresses = self.routes.addresses(slaves=self.members.have_consumers)
        self._alive.intersection_update(addresses)
        await asyncio.gather(*(self._send_heartbeat(address, body) for address in addresses))

    async def _send_heartbeat(self, address: str, body: bytes) -> None:
        if self._reconnects.wait_ms(address, self.now_ms()):
            return  # it could not be reached a moment ago; the next heartbeat or request tries again
        try:
            response = await self.request(address, Command(RequestCode.HEART_BEAT, body=body))
            if response.code != ResponseCode.SUCCESS:
                raise BrokerError(response.code, response.remark or "", address)
        except ClientError as error:
            if address in self._alive:
                self._alive.discard(address)
                log.warning("The broker at %s does not accept heartbeats: %s", address, error)
        else:
            self._alive.add(address)

    def _on_connection_opened(self, address: str, connection: Connection) -> None:
        """Send a heartbeat as the first request of a new connection. A broker forgets a client when its connection closes."""
        self._reconnects.record_success(address)
        if self.routes.is_broker(address):
            self._send_first_heartbeat(address, connection)

    def _send_first_heartbeat(self, address: str, connection: Connection) -> None:
        if not len(self.members):
            return
        command = Command(RequestCode.HEART_BEAT, body=encode(self.members.heartbeat()))
        response = connection.request(self.sign(command), self.limits.request_ms)
        response.add_done_callback(lambda done: self._on_first_heartbeat(address, connection, done))

    def _on_first_heartbeat(self, address: str, connection: Connection, response: asyncio.Future[Command]) -> None:
        if response.cancelled():
            return
        error = response.exception()
        if error is None:
            self._alive.add(address)
            self.members.notify_connected(address)
        elif isinstance(error, net.ConnectionLostError) and (advice := self._first_answer_advice(connection)):
            log.warning("%s%s", error, advice)

    # --- requests

    def sign(self, command: Command) -> Command:
        """Add the signature when the options have credentials. Return the command."""
        if self.options.credentials is not None:
            command.fields = sign_fields(command.fields, command.body, self.options.credentials)
        return command

    async def connection(self, address: str, deadline_ms: int) -> Connection:
        """Return an open connection, and open one when there is none. After failures the pauses between attempts grow; this call
        waits for the next attempt."""
        found = self.dialer.open_connection(address)
        if found is not None:
            return found
        self._must_be_open()
        now_ms = self.now_ms()
        wait_ms = self._reconnects.wait_ms(address, now_ms)
        if now_ms + wait_ms >= deadline_ms:
            raise UnreachableError(
                f"{address} could not be reached. The next attempt is in {wait_ms} ms, after the deadline of this request."
            )
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        try:
            async with asyncio.timeout((deadline_ms - self.now_ms()) / 1000):
                return await self.dialer.connection(address)
        except net.NetError as error:
            self._reconnects.record_failure(address, self.now_ms())
            raise client_error(error) from error
        except TimeoutError as error:
            raise UnreachableError(f"{address} could not be reached before the deadline of the request.") from error

    async def request(self, address: str, command: Command, *, timeout_ms: int | None = None) -> Command:
        """Send a request and return the response, whatever its code. Raise UnreachableError, DisconnectedError or TimedOutError
        when no response comes, also when it is a proxy that gets none."""
        deadline_ms = self.now_ms() + (self.limits.request_ms if timeout_ms is None else timeout_ms)
        connection = await self.connection(address, deadline_ms)
        try:
            response = await connection.request(self.sign(command), max(1, deadline_ms - self.now_ms()))
            check_proxy(response, address)
        except net.ConnectionLostError as error:
            raise DisconnectedError(f"{error}{self._first_answer_advice(connection)}") from error
        except net.NetError as error:
            raise client_error(error) from error
        return response

    def _first_answer_advice(self, connection: Connection) -> str:
        """Return a sentence for a connection that ended before the server's first answer; it has none for any other."""
        if connection.frames_read > FRAMES_BEFORE_FIRST_ANSWER:
            return ""
        advice = "without TLS" if self.options.tls is not None else "with TLS (tls=True)"
        return f" It has never answered: it may not be a RocketMQ server, or one to be used {advice}."

    async def request_ok(
        self, address: str, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int | None = None
    ) -> Command:
        """Send a request and return its successful response. Raise BrokerError when the response has any other code."""
        fields = header.to_fields() if header is not None else None
        response = await self.request(address, Command(code, fields=fields, body=body), timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise BrokerError(response.code, response.remark or "", address)
        return response

    @property
    def nameservers(self) -> tuple[str, ...]:
        """The addresses of all known nameservers, for changes that each of them needs."""
        return self._nameservers.addresses

    async def send_oneway(self, address: str, command: Command, *, timeout_ms: int | None = None) -> None:
        """Write a one-way request to a connection. No response comes."""
        deadline_ms = self.now_ms() + (self.limits.request_ms if timeout_ms is None else timeout_ms)
        (await self.connection(address, deadline_ms)).oneway(self.sign(command))

    async def request_nameserver(self, code: int, header: Header | None = None, *, timeout_ms: int | None = None) -> Command:
        """Return the response of the first nameserver that gives one, whatever its code."""
        deadline_ms = self.now_ms() + (self.limits.request_ms if timeout_ms is None else timeout_ms)
        fields = header.to_fields() if header is not None else None
        reasons: list[str] = []
        if not self._nameservers.addresses:
            await self._refresh_nameservers()  # the address server did not answer before
        for address in self._nameservers.in_turn():
            remaining_ms = deadline_ms - self.now_ms()
            if remaining_ms <= 0:
                break
            try:
                response = await self.request(address, Command(code, fields=fields), timeout_ms=remaining_ms)
                if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _EVERY_NAMESERVER_SERVES:
                    raise UnreachableError(
                        f"{address} is not a nameserver, but perhaps a broker. Nameservers listen on port 9876 by default."
                    )
            except ClientClosedError:
                raise
            except ClientError as error:
                self._nameservers.mark_failed(address)
                reasons.append(str(error))
            else:
                return response
        reason = " ".join(reasons) or f"The address server {self.options.address_server} listed none."
        raise NoNameserverError(f"No nameserver answers. {reason}")

    # --- routes

    async def route(self, topic: str, *, timeout_ms: int | None = None) -> Route | None:
        """Return a topic's route from the cache or from a nameserver; None when the topic does not exist."""
        return self.routes.route(topic) or await self.fetch_route(topic, timeout_ms=timeout_ms)

    async def fetch_route(self, topic: str, *, timeout_ms: int | None = None) -> Route | None:
        """Return a topic's route from a nameserver, and keep it; None when the topic does not exist."""
        data = await self._fetch_route(topic, timeout_ms)
        return self._store_route(topic, data) if data is not None else None

    async def route_to_write(self, topic: str, *, timeout_ms: int | None = None) -> Route:
        """Return a route with queues that accept messages. For a topic that does not exist, this is the route of the brokers that
        create it with the first message. Raise NoRouteError when there are none."""
        found = self.routes.route(topic)
        if found is not None and found.to_write:
            return found
        task = self._lookups.get(topic)
        if task is None:
            task = self._lookups[topic] = asyncio.get_running_loop().create_task(self._look_up(topic))
            task.add_done_callback(lambda done: self._on_lookup_done(topic, done))
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise TimedOutError(
                f"No nameserver returned the route of topic '{topic}' within {timeout_ms} ms. Nothing was sent."
            ) from error

    def _on_lookup_done(self, topic: str, done: asyncio.Task[Route]) -> None:
        self._lookups.pop(topic, None)
        if not done.cancelled():
            done.exception()  # every caller may have timed out: mark the error as retrieved

    async def _look_up(self, topic: str) -> Route:
        data = await self._fetch_route(topic)
        if data is not None:
            route = self._store_route(topic, data)
            if not route.to_write:
                raise NoRouteError(
                    f"Topic '{topic}' has no queue that accepts messages: its queues are not writable, or no master is up.", topic
                )
            return route
        create = f"Create it with: skyrocket topic create {topic}"
        default = await self._fetch_route(DEFAULT_TOPIC)
        if default is None:
            raise NoRouteError(
                f"Topic '{topic}' does not exist, and no broker creates topics with their first message. {create}", topic
            )
        route = self._store_route(topic, limit_queues(default, DEFAULT_TOPIC_QUEUES), is_borrowed=True)
        if not route.to_write:
            raise NoRouteError(
                f"Topic '{topic}' does not exist, and no broker is up that creates topics with their first message. {create}",
                topic,
            )
        return route

    async def refresh_routes(self) -> None:
        """Fetch the routes of all topics in use. A known route stays when no nameserver answers or the topic is unknown to
        them."""
        for topic in dict.fromkeys([*self.routes.topics, *self.members.topics()]):
            data = await self._fetch_route(topic)
            if data is not None:
                self._store_route(topic, data)
        self.routes.forget_unused_brokers()

    def refresh_soon(self, topic: str, least_ms: int = REFRESH_MS_MIN) -> None:
        """Fetch a topic's route in the background after one of its brokers failed, unless that was done within `least_ms`."""
        now_ms = self.now_ms()
        if topic in self._lookups or now_ms - self._refreshed_ms < least_ms:
            return
        self._refreshed_ms = now_ms
        self.start_task(self._refresh(topic))

    async def _refresh(self, topic: str) -> None:
        try:
            data = await self._fetch_route(topic)
        except ClientError as error:
            log.debug("The route of topic '%s' was not refreshed: %s", topic, error)
            return
        if data is not None:
            self._store_route(topic, data)

    async def _fetch_route(self, topic: str, timeout_ms: int | None = None) -> TopicRouteData | None:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = await self.request_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=timeout_ms)
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if response.code != ResponseCode.SUCCESS:
            raise BrokerError(response.code, response.remark or "", "The nameserver")
        return decode(response.body, TopicRouteData)

    def _store_route(self, topic: str, data: TopicRouteData, *, is_borrowed: bool = False) -> Route:
        addresses = {address for broker in data.broker_datas for address in (broker.broker_addrs or {}).values()}
        unknown = [address for address in addresses if not self.routes.is_broker(address)]
        if self.routes.update(topic, data, is_borrowed=is_borrowed):
            self.members.notify_route_changed(topic)
        for address in unknown:
            connection = self.dialer.open_connection(address)
            if connection is not None:  # to a proxy, which was no more than a nameserver so far
                self._send_first_heartbeat(address, connection)
        route = self.routes.route(topic)
        assert route is not None
        return route

    # ---

    def _must_be_open(self) -> None:
        if self._closed:
            raise ClientClosedError("The client is closed.")

    def start_task(self, job: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background. It is cancelled when the session closes."""
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)


def _abandon_after_fork() -> None:
    """Drop all sessions in a forked child. They belong to the parent's event loop, which does not run here."""
    for sessions in _by_loop.values():
        for session in sessions:
            session._closed = True
            session.dialer.abandon()
        sessions.clear()


os.register_at_fork(after_in_child=_abandon_after_fork)

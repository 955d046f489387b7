"""One client of the proxy: its requests go to the servers behind the proxy, and theirs come back to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from skyrocket.net.audit_log import REFUSED, AuditLog
from skyrocket.net.connection import BY_OWNER, Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import ConnectError, NetError, TooManyRequestsError
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import ClusterInfo, TopicRouteData
from skyrocket.protocol.command import Command, decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode, encode, route_dialect
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import REQUESTS, RequestCode
from skyrocket.protocol.responses import NOT_SENT, PROXY_FAILURE, ResponseCode
from skyrocket.proxy.answers import join_answers
from skyrocket.proxy.destination import BROKER_NAME, Destination, Receiver, find_destination
from skyrocket.proxy.directory import BrokerDirectory, VisibleAddresses
from skyrocket.proxy.frame_router import FrameRouter
from skyrocket.proxy.heartbeats import KeptHeartbeats, LastHeartbeat
from skyrocket.proxy.limits import ProxyLimits
from skyrocket.proxy.server_link import InFlight, OpenConnection, ServerLink, pieces_of

log = logging.getLogger(__name__)
outside = OutsideLog(log)

BrokerId = tuple[str, int]
_NAMESERVER: Final = ""  # the name of the link to a nameserver; no broker has it
_NO_NAMESRV_ADMIN: Final = "The proxy passes no changes to nameservers. Ask a nameserver itself, or set namesrvAdminEnable=true."


class Cluster(Protocol):
    """What all clients of the proxy share."""

    limits: ProxyLimits
    in_flight: InFlight
    heartbeats: KeptHeartbeats
    directory: BrokerDirectory
    visible: VisibleAddresses
    passes_namesrv_admin: bool
    audit: AuditLog | None

    def now_ms(self) -> int: ...

    def dialer(self, router: Router) -> Dialer:
        """Make what opens the connections of one client."""

    async def connect_nameserver(self, connect: Callable[[str], Awaitable[Connection]]) -> OpenConnection:
        """Connect to a nameserver that can be reached. Raise NetError when none can."""

    def broker_address(self, name: str, port_id: int | None) -> str | None:
        """Return the address of the broker that has a port, or the master's (the first slave's while there is none)."""

    async def find_broker(self, name: str, port_id: int | None, not_at: str = "") -> str:
        """Like `broker_address`, and ask a nameserver if need be. Raise NetError when none knows another one than `not_at`."""

    async def settle_doubt(self) -> None:
        """Ask for the brokers of the cluster, because a route contradicts what is known. Wait for the answer for a moment."""

    async def broker_names(self) -> list[str]:
        """Return the names of all brokers. Ask a nameserver if none is known."""


class ClientSession:
    def __init__(self, client: Connection, cluster: Cluster, port_broker: BrokerId | None = None) -> None:
        """`port_broker` is the broker that has the port to which the client has connected: all its requests go there."""
        self.limits = cluster.limits
        self.in_flight = cluster.in_flight
        self.now_ms = cluster.now_ms
        self._client = client
        self._cluster = cluster
        self._port_broker = port_broker
        self._dialer = cluster.dialer(FrameRouter(self._on_server_frames))
        self._dialer.on_closed.append(self._on_closed)
        self._links: dict[str, ServerLink] = {}
        self._by_connection: dict[Connection, ServerLink] = {}
        self._brokers: set[str] = set()  # that the client uses at this port: their names were in a route or a request
        self._has_route = False  # before its first route, a client that has connected again may use any broker
        self._heartbeat = LastHeartbeat(self.limits, cluster.heartbeats)
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: set[Connection] = set()  # from which nothing is read, because the client does not read
        self._held_timer: asyncio.TimerHandle | None = None
        self._held_look_s = self.limits.client_look_s

    @property
    def is_answering(self) -> bool:
        """Whether the client is due to get a response soon."""
        return any(link.is_answering for link in self._links.values())

    # --- what the client sends

    def on_client_frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            try:
                command = decode_command(frame)
            except ProtocolError as error:
                self._client.close(str(error))
                return
            if command.is_response:
                self._client.resolve(command.opaque, command)
                continue
            try:
                self._pass_on(frame, command)
            except TooManyRequestsError as error:
                self._refuse(command, ResponseCode.SYSTEM_BUSY, str(error))

    def _pass_on(self, frame: Frame, request: Command) -> None:
        self._heartbeat.note(request)
        if self._port_broker is not None:
            self._link(self._port_broker[0]).forward(frame, request)
            return
        destination = find_destination(request)
        if destination.receiver is Receiver.NAMESERVER:
            self._link(_NAMESERVER).forward(frame, request)
        elif destination.receiver is Receiver.NAMESERVER_ADMIN:
            if self._cluster.passes_namesrv_admin:
                self._link(_NAMESERVER).forward(frame, request)
            else:
                self._forbid(request, ResponseCode.NO_PERMISSION, _NO_NAMESRV_ADMIN)
        elif destination.receiver is Receiver.NAMED_BROKER:
            self._link(destination.broker).forward(frame, request)
        elif destination.receiver is Receiver.NOBODY:
            self._forbid(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"The proxy takes no request {request.code}.")
        elif destination.receiver is Receiver.EVERY_BROKER:
            names = self._used_brokers()
            if names:
                self._pass_to_all(frame, request, names)  # at once: what the client sends next comes next
            else:
                self._begin(request, self._find_all(frame, request))
        else:
            self._begin(request, self._ask_one_broker(frame, request, destination))

    def _used_brokers(self) -> list[str]:
        """Return the names of the brokers that the client uses; none when the proxy does not know any yet.

        A broker with a port of its own gets its heartbeats there, over another session.
        """
        if self._has_route and self._brokers:
            return sorted(self._brokers)
        return [name for name in self._cluster.directory.names if self._is_at_main(name)]

    def _is_at_main(self, name: str) -> bool:
        return self._cluster.visible.has_main(name, self._cluster.directory.ids(name))

    async def _ask_one_broker(self, frame: Frame, request: Command, destination: Destination) -> None:
        """Pass on a request that names no broker."""
        names = self._used_brokers() if destination.receiver is Receiver.ANY_BROKER else []
        names = names or await self._cluster.broker_names()
        if not names:
            self.fail(request, "No nameserver knows a broker.", NOT_SENT)
            return
        if destination.receiver is Receiver.ONLY_BROKER and len(names) > 1:
            self._refuse(
                request,
                ResponseCode.VERSION_NOT_SUPPORTED,
                f"Request {request.code} names no broker, and the proxy has {len(names)}. Use a client of RocketMQ 5, "
                f"or give each broker a port (brokerPorts).",
            )
            return
        open_names = [name for name in names if name in self._links and self._links[name].is_open]
        self._link((open_names or names)[0]).forward(frame, request)

    async def _find_all(self, frame: Frame, request: Command) -> None:
        known = await self._cluster.broker_names()
        names = self._used_brokers()
        if not names:
            nobody = "Each broker has a port of its own (brokerPorts)." if known else "No nameserver knows a broker."
            self.fail(request, nobody, NOT_SENT)
            return
        self._pass_to_all(frame, request, names)

    def _pass_to_all(self, frame: Frame, request: Command, names: list[str]) -> None:
        """Pass on a heartbeat, a client's farewell or its question for the members of a group. Its answers become one."""
        same = self._heartbeat.answer(request, self.now_ms())
        if same is not None:
            if not request.is_oneway:
                self._client.send_command(same)
            return
        if len(names) == 1:
            self._link(names[0]).forward(frame, request)
            return
        asked: list[asyncio.Future[Frame | None]] = []
        for name in names:
            answered: asyncio.Future[Frame | None] = asyncio.get_running_loop().create_future()
            try:
                self._link(name).forward(frame, request, answered)
            except TooManyRequestsError as error:
                log.debug("A request of %s does not reach %s: %s", self._client.peer_text, name, error)
                answered.set_result(None)
            asked.append(answered)
        if not request.is_oneway:
            self._begin(request, self._answer_from_all(request, frame.body, asked))

    async def _answer_from_all(self, request: Command, body: bytes, asked: list[asyncio.Future[Frame | None]]) -> None:
        await asyncio.wait(asked, timeout=self.limits.every_broker_ms / 1000)
        found = [each.result() for each in asked if each.done()]
        frames = [each for each in found if each is not None]
        joined = join_answers(request.code, frames)
        if joined is None:
            self.fail(request, f"None of {len(asked)} brokers answers.", NOT_SENT)
            return
        if len(frames) == len(asked):
            self._heartbeat.record_answer(request, body, joined, self.now_ms())
        self._client.send(pieces_of(joined))

    def _begin(self, request: Command, work: Coroutine[Any, Any, None]) -> None:
        """Do what cannot be done at once."""
        if len(self._tasks) >= self.limits.answers_max:
            work.close()
            raise TooManyRequestsError(f"{len(self._tasks)} requests of this client wait already.")
        task = asyncio.get_running_loop().create_task(self._finish(request, work))
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)

    async def _finish(self, request: Command, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TooManyRequestsError as error:
            self._refuse(request, ResponseCode.SYSTEM_BUSY, str(error))
        except (NetError, ProtocolError) as error:
            self.fail(request, str(error), NOT_SENT)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("A request of %s failed unexpectedly.", self._client.peer_text, exc_info=error)
            self._client.abort("a request of it failed unexpectedly")

    def fail(self, request: Command, sentence: str, failure: str) -> None:
        self._refuse(request, ResponseCode.SERVICE_NOT_AVAILABLE, sentence, failure)

    def _forbid(self, request: Command, code: ResponseCode, sentence: str) -> None:
        """Refuse what no client may send through the proxy."""
        if self._cluster.audit is not None:
            spec = REQUESTS.get(request.code)
            self._cluster.audit.record(
                REFUSED,
                user="",  # the proxy verifies no signature
                peer=self._client.peer_text,
                code=request.code,
                request="" if spec is None else spec.name,
                response=code,
                remark=sentence,
            )
        self._refuse(request, code, sentence)

    def _refuse(self, request: Command, code: ResponseCode, sentence: str, failure: str = "") -> None:
        if request.is_oneway:
            outside.warning("A one-way request of %s (%d) is dropped. %s", self._client.peer_text, request.code, sentence)
            return
        response = request.response(code, remark=sentence)
        if failure:
            response.fields[PROXY_FAILURE] = failure
        self._client.send_command(response)

    # --- links to servers

    def _link(self, name: str) -> ServerLink:
        """Return the link to a broker, or to a nameserver. A broker that has moved gets a new connection."""
        link = self._links.get(name)
        if link is None:
            if len(self._links) >= self.limits.links_max:
                raise TooManyRequestsError(f"This client uses {len(self._links)} brokers already.")
            self._links[name] = link = ServerLink(self, name, self._connector(name))
        elif link.connection is not None and self._has_moved(link):
            connection = link.connection
            link.lose("its broker has another address now")
            connection.close("its broker has another address now")
        return link

    def _connector(self, name: str) -> Callable[[], Awaitable[OpenConnection]]:
        async def connect_broker() -> OpenConnection:
            address = await self._cluster.find_broker(name, self._port_id)
            try:
                return OpenConnection(address, await self._dialer.open(address))
            except ConnectError as error:
                try:
                    address = await self._cluster.find_broker(name, self._port_id, not_at=address)
                except ConnectError:
                    raise error from None
            return OpenConnection(address, await self._dialer.open(address))

        async def connect_nameserver() -> OpenConnection:
            return await self._cluster.connect_nameserver(self._dialer.open)

        return connect_broker if name else connect_nameserver

    @property
    def _port_id(self) -> int | None:
        return None if self._port_broker is None else self._port_broker[1]

    def _has_moved(self, link: ServerLink) -> bool:
        if not link.name:
            return False
        address = self._cluster.broker_address(link.name, self._port_id)
        return address is not None and address != link.address

    def on_link_open(self, link: ServerLink, connection: Connection) -> None:
        self._by_connection[connection] = link
        if link.name and (self._port_broker is not None or self._is_at_main(link.name)):
            self._brokers.add(link.name)  # not when the client names it: anybody can make up names
        heartbeat = self._heartbeat.repeat(connection.next_opaque()) if link.name in self._brokers else None
        if heartbeat is not None and not link.waits_for(RequestCode.HEART_BEAT):
            connection.send_command(heartbeat)

    def on_link_failed(self, link: ServerLink) -> None:
        if link.name and self._cluster.directory.address(link.name) is None:  # a name that somebody made up, or that is gone
            self._brokers.discard(link.name)
            self._links.pop(link.name, None)

    def _on_closed(self, connection: Connection, reason: str) -> None:
        self._held.discard(connection)
        link = self._by_connection.pop(connection, None)
        if link is not None and link.connection is connection:
            link.lose(reason)

    # --- what servers send

    def _on_server_frames(self, frames: list[Frame], connection: Connection) -> None:
        link = self._by_connection.get(connection)
        if link is None:
            return
        for frame in frames:
            try:
                command = decode_command(frame)
            except ProtocolError as error:
                connection.close(str(error))
                self._on_closed(connection, str(error))
                return
            if command.is_response:
                self._on_response(link, command, frame)
            else:
                self._on_request(link, connection, command, frame)
        if self._client.unwritten_bytes > self.limits.client_unread_bytes:
            self._hold(connection)

    def _on_response(self, link: ServerLink, response: Command, frame: Frame) -> None:
        waiting = link.answer(response, frame)
        if waiting is None:
            return
        if not link.name and response.code == ResponseCode.SUCCESS:
            try:
                frame, agrees = self._show(waiting.request, frame)
            except ProtocolError as error:
                self._refuse(waiting.request, ResponseCode.SYSTEM_ERROR, f"The nameserver's answer cannot be read: {error}")
                return
            if not agrees and len(self._tasks) < self.limits.answers_max:
                self._begin(waiting.request, self._answer_after_look(frame))
                return
        self._client.send(pieces_of(frame))

    async def _answer_after_look(self, frame: Frame) -> None:
        """Pass a route on once its brokers' new addresses are known, if they are new: the client uses them next."""
        await self._cluster.settle_doubt()
        self._client.send(pieces_of(frame))

    def _show(self, request: Command, frame: Frame) -> tuple[Frame, bool]:
        """Return a nameserver's answer as the client sees it, with the proxy's address instead of the brokers', and whether it
        agrees with what the proxy knows."""
        visible, directory = self._cluster.visible, self._cluster.directory
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            route = decode(frame.body, TopicRouteData)
            agrees = directory.learn(route.broker_datas)
            visible.show_route(route)
            for broker in route.broker_datas:
                if visible.is_main(broker):
                    self._brokers.add(broker.broker_name)
                else:
                    self._brokers.discard(broker.broker_name)
            self._has_route = True
            dialect = route_dialect(request.version, request.fields.get("acceptStandardJsonOnly") == "true")
            return frame._replace(body=encode(route, dialect)), agrees
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            cluster = decode(frame.body, ClusterInfo)
            agrees = directory.learn((cluster.broker_addr_table or {}).values())
            visible.show_cluster(cluster)
            return frame._replace(body=encode(cluster)), agrees
        return frame, True

    def _on_request(self, link: ServerLink, connection: Connection, request: Command, frame: Frame) -> None:
        """Pass a request of a broker to the client, under a number that is unique at the client."""
        if request.code == RequestCode.CHECK_TRANSACTION_STATE and BROKER_NAME not in request.fields:
            request.fields[BROKER_NAME] = link.name  # a broker of RocketMQ 4 leaves it out, and the client's answer needs it
            if request.is_oneway:
                self._client.send_command(request)
                return
        if request.is_oneway:
            self._client.send(pieces_of(frame))
            return
        number = request.opaque
        if len(self._tasks) >= self.limits.answers_max:
            sentence = f"{len(self._tasks)} requests to this client wait already."
            connection.send_command(request.response(ResponseCode.SYSTEM_BUSY, remark=sentence))
            return
        asked = self._client.request(request, self.limits.client_answer_ms)  # it gives the request another number

        async def pass_answer() -> None:
            try:
                answer = await asked
            except NetError as error:
                answer = request.response(ResponseCode.SYSTEM_ERROR, remark=str(error))
            answer.opaque = number
            try:
                connection.send_command(answer)  # to whom has asked: the link may have another connection by now
            except ProtocolError as error:
                log.warning("The answer of %s to a broker cannot be passed on: %s", self._client.peer_text, error)

        self._begin(request, pass_answer())

    # --- a client that does not read

    def _hold(self, connection: Connection) -> None:
        """Read nothing from a server until the client has read what came: the server waits, too, instead of filling memory."""
        if connection not in self._held and connection.is_open:
            self._held.add(connection)
            connection.pause(BY_OWNER)
        if self._held_timer is None:
            self._held_look_s = self.limits.client_look_s
            self._look_later()

    def _look_later(self) -> None:
        self._held_timer = asyncio.get_running_loop().call_later(self._held_look_s, self._look_at_client)
        self._held_look_s = min(2 * self._held_look_s, self.limits.client_look_s_max)

    def _look_at_client(self) -> None:
        if self._client.unwritten_bytes > self.limits.client_unread_bytes // 2:
            self._look_later()
            return
        self._held_timer = None
        held, self._held = self._held, set()
        for connection in held:
            connection.resume(BY_OWNER)

    # --- time, and the end

    def check_time(self, now_ms: int) -> None:
        """Look for servers that are silent, unless it is the client who keeps them waiting."""
        if not self._held:
            for link in self._links.values():
                link.check_time(now_ms)

    async def close(self) -> None:
        """The client has gone. Brokers learn it from the end of its connections."""
        if self._held_timer is not None:
            self._held_timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(link.close() for link in list(self._links.values())))
        self._heartbeat.forget()
        self._by_connection.clear()
        await self._dialer.close()

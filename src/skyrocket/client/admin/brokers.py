"""Broker lookup and requests for the admin classes: which brokers a request goes to, and how it is sent to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from skyrocket.client.admin.results import BrokerInfo
from skyrocket.client.errors import BrokerError, ClientError, NoRouteError, NotFoundError, UnreachableError
from skyrocket.client.queues import Queue
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.client.session.routes import Route
from skyrocket.client.session.session import Session
from skyrocket.protocol.bodies import ClusterInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.header import Header
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import is_system_name

T = TypeVar("T")
A = TypeVar("A")

_NOTHING_CHANGED: Final = (
    "Nothing was changed, at the brokers neither. A nameserver knows only the two users of its own settings "
    "(initAuthenticationUser, innerClientAuthenticationCredentials): sign as one that brokers know, too."
)


class Brokers:
    """Finds brokers and sends requests to them. Arguments carry the user's names, requests the names with the namespace."""

    def __init__(self, session: Session) -> None:
        self.session = session

    # --- names

    def to_wire(self, name: str) -> str:
        """Add the namespace to a topic or group."""
        return with_namespace(self.session.options.namespace, name)

    def to_user(self, name: str) -> str:
        """Remove the namespace from a topic or group."""
        return without_namespace(self.session.options.namespace, name)

    def is_in_namespace(self, name: str) -> bool:
        """Whether a name on the wire is in the namespace. Without a namespace every name is."""
        return not self.session.options.namespace or self.to_user(name) != name or is_system_name(name)

    # --- lookup

    async def list_brokers(self, nameserver: str | None = None) -> list[BrokerInfo]:
        """Fetch all brokers from a nameserver, slaves included. Without an address, from one that answers."""
        if nameserver is None:
            answer = await self.request_nameserver(RequestCode.GET_BROKER_CLUSTER_INFO)
        else:
            answer = await self.session.request_ok(nameserver, RequestCode.GET_BROKER_CLUSTER_INFO)
        info = self.decode_body(answer, ClusterInfo)
        return [
            BrokerInfo(cluster=broker.cluster or "", broker_name=name, broker_id=broker_id, address=address)
            for name, broker in sorted((info.broker_addr_table or {}).items())
            for broker_id, address in sorted((broker.broker_addrs or {}).items())
        ]

    async def masters(self, cluster: str | None = None, brokers: Iterable[str] | None = None) -> dict[str, str]:
        """Fetch broker name -> address of all masters, of one cluster's masters, or of the named ones."""
        known = await self.list_brokers()
        found = {one.broker_name: one.address for one in known if one.is_master and cluster in (None, one.cluster)}
        if brokers is not None:
            names = list(brokers)
            for name in names:
                if name not in found:
                    raise NotFoundError(f"No nameserver has a master called '{name}'{_in_cluster(cluster)}.")
            found = {name: found[name] for name in names}
        if not found:
            raise NotFoundError(f"No nameserver has a master{_in_cluster(cluster)}.")
        return found

    async def address(self, broker: str) -> str:
        """Return the master's address for a broker name. An address is returned unchanged."""
        if ":" in broker:
            return broker
        return (await self.masters(brokers=[broker]))[broker]

    async def route(self, topic: str) -> Route:
        """Fetch the current route of a topic. Raises NoRouteError if the topic does not exist."""
        wire_topic = self.to_wire(topic)
        self.session.routes.forget(wire_topic)
        route = await self.session.route(wire_topic)
        if route is None:
            raise self.no_route(topic)
        return route

    def no_route(self, topic: str) -> NoRouteError:
        """Create the error for a topic that does not exist."""
        nameservers = ";".join(self.session.nameservers)
        return NoRouteError(
            f"Topic '{topic}' does not exist at {nameservers}. Create it with: skyrocket topic create {topic}", topic
        )

    async def addresses_of_topic(self, topic: str) -> dict[str, str]:
        """Fetch broker name -> address of the brokers that have a topic: the master, or a slave if there is no master."""
        route = await self.route(topic)
        found = {name: self.session.routes.any_address(name) for name in route.brokers}
        return {name: address for name, address in found.items() if address is not None}

    async def address_of_queue(self, queue: Queue) -> str:
        """Fetch the address of the broker that has a queue. The queue carries the user's topic name."""
        address = (await self.addresses_of_topic(queue.topic)).get(queue.broker_name)
        if address is None:
            raise UnreachableError(f"No nameserver has an address of broker {queue.broker_name}, which holds {queue}.")
        return address

    # --- requests

    async def for_each(self, items: Sequence[A], ask: Callable[[A], Awaitable[T]]) -> list[T]:
        """Call `ask` for all items at the same time. When all calls have ended, raises the first error, if any."""
        results = await asyncio.gather(*(ask(item) for item in items), return_exceptions=True)
        answers: list[T] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            answers.append(result)
        return answers

    async def request_nameserver(self, code: int, header: Header | None = None) -> Command:
        """Send a request to one nameserver. Raises BrokerError if the response is not SUCCESS."""
        answer = await self.session.request_nameserver(code, header)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", "The nameserver")
        return answer

    async def request_all_nameservers(self, code: int, header: Header | None = None, body: bytes = b"") -> None:
        """Send a request to every nameserver, as they do not replicate."""
        await self.for_each(self.session.nameservers, lambda address: self.session.request_ok(address, code, header, body))

    async def check_nameservers(self) -> None:
        """Raise BrokerError when a nameserver would refuse a change. Call it before the part of a change that brokers make.

        A nameserver with access control has users of its own. Asking for its settings needs the same right as a change. One that
        cannot be reached, or does not know the request, says nothing about rights.
        """

        async def check(address: str) -> None:
            try:
                answer = await self.session.request(address, Command(RequestCode.GET_NAMESRV_CONFIG))
            except ClientError:
                return
            if answer.code == ResponseCode.NO_PERMISSION:
                raise BrokerError(answer.code, f"{answer.remark or 'refused.'} {_NOTHING_CHANGED}", address)

        await self.for_each(self.session.nameservers, check)

    def decode_body(self, answer: Command, body_type: type[T]) -> T:
        """Decode the body of a response. Raises BrokerError if it is not valid."""
        try:
            return decode(answer.body, body_type)
        except BodyError as error:
            raise BrokerError(answer.code, f"the body cannot be decoded: {error}", "A server") from error


def _in_cluster(cluster: str | None) -> str:
    return f" in cluster '{cluster}'" if cluster else ""

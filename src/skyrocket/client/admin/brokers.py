"""Which brokers a question goes to, and how all of them are asked. Behind every noun of `Admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from skyrocket.client.admin.results import Broker
from skyrocket.client.errors import BrokerError, NoRouteError, NotFoundError, UnreachableError
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


class Brokers:
    """Names that come in are the user's, those that go out are on the wire, and the other way round."""

    def __init__(self, session: Session) -> None:
        self.session = session

    # --- names

    def wire(self, name: str) -> str:
        return with_namespace(self.session.options.namespace, name)

    def user(self, name: str) -> str:
        return without_namespace(self.session.options.namespace, name)

    def is_ours(self, name: str) -> bool:
        """In the namespace, where there is one."""
        return not self.session.options.namespace or self.user(name) != name or is_system_name(name)

    # --- who there is

    async def all(self) -> list[Broker]:
        """Every broker that the nameservers know, slaves too."""
        answer = await self.ask_nameserver(RequestCode.GET_BROKER_CLUSTER_INFO)
        info = self.read(answer, ClusterInfo)
        return [
            Broker(cluster=broker.cluster or "", broker_name=name, broker_id=broker_id, address=address)
            for name, broker in sorted((info.broker_addr_table or {}).items())
            for broker_id, address in sorted((broker.broker_addrs or {}).items())
        ]

    async def masters(self, cluster: str | None = None, brokers: Iterable[str] | None = None) -> dict[str, str]:
        """Name -> address of all masters, of those of one cluster, or of those that are named."""
        known = await self.all()
        found = {one.broker_name: one.address for one in known if one.is_master and cluster in (None, one.cluster)}
        if brokers is not None:
            wanted = list(brokers)
            for name in wanted:
                if name not in found:
                    raise NotFoundError(f"The nameservers know no master called '{name}'{_in(cluster)}.")
            found = {name: found[name] for name in wanted}
        if not found:
            raise NotFoundError(f"The nameservers know no master{_in(cluster)}.")
        return found

    async def address(self, broker: str) -> str:
        """Of a broker's name: the master's. An address is taken as it is."""
        if ":" in broker:
            return broker
        return (await self.masters(brokers=[broker]))[broker]

    async def route(self, topic: str) -> Route:
        """Asked for anew. NoRouteError when the nameservers know no such topic."""
        wire = self.wire(topic)
        self.session.routes.forget(wire)
        route = await self.session.route(wire)
        if route is None:
            raise NoRouteError(f"The nameservers know no topic '{topic}'.", topic)
        return route

    async def of_topic(self, topic: str) -> dict[str, str]:
        """Name -> address of the brokers that have it: masters, or slaves where there is no master."""
        route = await self.route(topic)
        found = {name: self.session.routes.any_address(name) for name in route.brokers}
        return {name: address for name, address in found.items() if address is not None}

    async def address_of(self, queue: Queue) -> str:
        """`queue` as the user names it."""
        address = (await self.of_topic(queue.topic)).get(queue.broker_name)
        if address is None:
            raise UnreachableError(f"The nameservers know no address of broker {queue.broker_name}, which has {queue}.")
        return address

    # --- asking

    async def each(self, names: Sequence[A], ask: Callable[[A], Awaitable[T]]) -> list[T]:
        """All at the same time; the first error is raised once all have ended."""
        ended = await asyncio.gather(*(ask(name) for name in names), return_exceptions=True)
        answers: list[T] = []
        for end in ended:
            if isinstance(end, BaseException):
                raise end
            answers.append(end)
        return answers

    async def ask_nameserver(self, code: int, header: Header | None = None) -> Command:
        answer = await self.session.request_nameserver(code, header)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", "The nameserver")
        return answer

    async def tell_nameservers(self, code: int, header: Header | None = None, body: bytes = b"", *, fine: int = 0) -> None:
        """Each of them: they do not tell one another. `fine` is an answer beside SUCCESS that will do."""

        async def tell(address: str) -> None:
            try:
                await self.session.request_ok(address, code, header, body)
            except BrokerError as error:
                if error.code != fine:
                    raise

        await self.each(self.session.nameservers, tell)

    def read(self, answer: Command, body_type: type[T]) -> T:
        try:
            return decode(answer.body, body_type)
        except BodyError as error:
            raise BrokerError(answer.code, f"it cannot be read: {error}", "An answer") from error


def _in(cluster: str | None) -> str:
    return f" in cluster '{cluster}'" if cluster else ""

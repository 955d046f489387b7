"""A cluster, asked from Spark's driver or a task: without await, all queues at once, again and again until an answer comes.

    cluster = Cluster(options.cluster)
    queues = cluster.queues(["orders"])["orders"]
    cluster.last(queues)                              # {queue: one past its last message}

Topics here are the user's; the namespace is added on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.topics import TopicAdmin
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.errors import (
    BrokerError,
    ClientError,
    DisconnectedError,
    NoNameserverError,
    OverloadedError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.client.queues import Queue
from skyrocket.client.session.identity import new_client_id
from skyrocket.client.session.namespaces import with_namespace
from skyrocket.client.session.routes import MASTER_ID
from skyrocket.client.session.session import Session
from skyrocket.client.sync import run
from skyrocket.protocol.bodies import CheckClientRequestBody
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION
from skyrocket.protocol.system_names import is_internal_topic
from skyrocket.spark.cluster.cluster_sessions import session_with
from skyrocket.spark.errors import RefusedError, UnreachableClusterError
from skyrocket.spark.options.cluster_options import ClusterOptions

T = TypeVar("T")
Offsets = dict[Queue, int]

ASKED_AT_ONCE_MAX: Final = 64  # queues, of one question
_AGAIN_FIRST_S: Final = 0.1  # after the first failure; doubled with each further one
_AGAIN_MOST_S: Final = 2.0

_NO_ANSWER: Final = (NoNameserverError, UnreachableError, DisconnectedError, TimedOutError, OverloadedError)
_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})


class Cluster:
    def __init__(self, options: ClusterOptions) -> None:
        self.options = options

    # --- what there is

    def topics(self) -> list[str]:
        """All but the system's own, retry and dead-letter topics."""
        found = self._asked(lambda session: TopicAdmin(Brokers(session)).names())
        return [topic for topic in found if not is_internal_topic(topic)]

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[Queue, ...]]:
        """Those that can be read, as the nameservers say it now; none where they know no such topic."""
        wanted = tuple(dict.fromkeys(topics))

        async def ask(session: Session) -> dict[str, tuple[Queue, ...]]:
            await self._routes(session, wanted)
            found = {}
            for topic in wanted:
                route = session.routes.route(self.wire(topic))
                found[topic] = tuple(queue._replace(topic=topic) for queue in sorted(route.to_read)) if route else ()
            return found

        return self._asked(ask)

    def address(self, queue: Queue, broker_id: int = MASTER_ID, *, fresh: bool = False) -> str:
        """Of a broker that has the queue: that one, or else another of its name. With `fresh`, the nameservers are asked."""

        async def ask(session: Session) -> str:
            if fresh or session.routes.any_address(queue.broker_name) is None:
                await self._routes(session, (queue.topic,))
            address = session.routes.address(queue.broker_name, broker_id) or session.routes.any_address(queue.broker_name)
            if address is None:
                raise UnreachableError(f"The nameservers know no address of broker {queue.broker_name}, which has {queue}.")
            return address

        return self._asked(ask)

    def without_master(self, brokers: Iterable[str]) -> frozenset[str]:
        """Those of which only slaves are known, as of the last route."""
        names = tuple(brokers)

        async def ask(session: Session) -> frozenset[str]:
            return frozenset(name for name in names if session.routes.address(name) is None)

        return self._asked(ask)

    # --- offsets

    def first(self, queues: Iterable[Queue], *, some: bool = False) -> Offsets:
        """Of each queue's first message. With `some`, queues whose broker does not answer at once are left out."""
        found = self._each(queues, lambda offsets, queue: offsets.min_offset(queue), some=some)
        return {queue: max(0, offset) for queue, offset in found.items()}

    def last(self, queues: Iterable[Queue], *, some: bool = False) -> Offsets:
        """One past each queue's last message."""
        return self._each(queues, lambda offsets, queue: offsets.max_offset(queue), some=some)

    def at(self, moments: Mapping[Queue, int]) -> Offsets:
        """Of the first message that was stored at the moment or later; of the end, where there is none."""
        wire = {self._on_wire(queue): moment for queue, moment in moments.items()}
        return self._each(moments, lambda offsets, queue: offsets.offset_at(queue, wire[queue]))

    def committed(self, group: str, queues: Iterable[Queue]) -> dict[Queue, int | None]:
        return self._each(queues, lambda offsets, queue: offsets.committed_offset(queue), group=group)

    def commit(self, group: str, offsets: Mapping[Queue, int], *, some: bool = False) -> set[Queue]:
        """The queues whose broker took it: all, unless `some` will do."""
        wire = {self._on_wire(queue): offset for queue, offset in offsets.items()}
        return set(self._each(offsets, lambda at, queue: at.commit(queue, wire[queue]), group=group, some=some))

    def introduce(self, group: str, offsets: Mapping[Queue, int]) -> None:
        """To the brokers of these queues, which take offsets of a group that they know only. A pull makes one known, where that
        is allowed; at these offsets, it will mostly bring nothing."""
        brokers = {queue.broker_name: queue for queue in offsets}

        async def ask(session: Session) -> None:
            for queue in brokers.values():
                header = PullMessageRequestHeader(
                    consumer_group=self.wire(group),
                    topic=self.wire(queue.topic),
                    queue_id=queue.queue_id,
                    queue_offset=offsets[queue],
                    max_msg_nums=1,
                    sys_flag=PULL_SUBSCRIPTION,
                    commit_offset=0,
                    suspend_timeout_millis=0,
                    subscription=EVERY_TAG,
                    sub_version=0,
                    rpc_broker_name=queue.broker_name,
                )
                address = session.routes.any_address(queue.broker_name)
                if address is not None:
                    await session.request(address, Command(RequestCode.PULL_MESSAGE, fields=header.to_fields()))

        self._asked(ask)

    # --- filters

    def check(self, group: str, subscription: Subscription, queues: Iterable[Queue]) -> None:
        """RefusedError, where a broker of these queues does not take this SQL92 expression: Apache's would give every message."""
        brokers = {queue.broker_name: queue for queue in queues}

        async def ask(session: Session) -> None:
            await self._routes(session, {queue.topic for queue in brokers.values()})
            for queue in brokers.values():
                address = session.routes.any_address(queue.broker_name)
                if address is None:
                    raise UnreachableError(f"The nameservers know no address of broker {queue.broker_name}.")
                body = CheckClientRequestBody(
                    client_id=new_client_id(session.address, ""),
                    group=self.wire(group),
                    subscription_data=subscription._replace(topic=self.wire(queue.topic)).as_body(),
                )
                await session.request_ok(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode(body))

        self._asked(ask)

    # ---

    def wire(self, name: str) -> str:
        return with_namespace(self.options.namespace, name)

    def _on_wire(self, queue: Queue) -> Queue:
        return queue._replace(topic=self.wire(queue.topic))

    def _each(
        self,
        queues: Iterable[Queue],
        ask: Callable[[QueueOffsets, Queue], Awaitable[T]],
        *,
        group: str = "",
        some: bool = False,
    ) -> dict[Queue, T]:
        asked = tuple(dict.fromkeys(queues))

        async def ask_all(session: Session) -> dict[Queue, T]:
            await self._routes(session, {queue.topic for queue in asked})
            offsets, gate = QueueOffsets(session, self.wire(group)), asyncio.Semaphore(ASKED_AT_ONCE_MAX)

            async def one(queue: Queue) -> T:
                async with gate:
                    return await ask(offsets, self._on_wire(queue))

            answers = await asyncio.gather(*map(one, asked), return_exceptions=True)
            found: dict[Queue, T] = {}
            for queue, answer in zip(asked, answers, strict=True):
                if not isinstance(answer, BaseException):
                    found[queue] = answer
                elif not (some and isinstance(answer, _NO_ANSWER)):
                    raise answer
            return found

        return self._asked(ask_all) if asked else {}

    async def _routes(self, session: Session, topics: Iterable[str]) -> None:
        """As they are now. Where brokers are stays known, also of those that are gone for a moment."""

        async def one(topic: str) -> None:
            session.routes.forget(topic)
            await session.route(topic)

        await asyncio.gather(*(one(self.wire(topic)) for topic in topics))

    def _asked(self, ask: Callable[[Session], Awaitable[T]]) -> T:
        return run(self._until_answered(ask))

    async def _until_answered(self, ask: Callable[[Session], Awaitable[T]]) -> T:
        deadline_s, again_s = time.monotonic() + self.options.retry_ms / 1000, _AGAIN_FIRST_S
        while True:
            try:
                async with session_with(self.options) as session:
                    return await ask(session)
            except BrokerError as error:
                if error.code not in _BUSY:
                    raise RefusedError(str(error)) from error
                reason: ClientError = error
            except _NO_ANSWER as error:
                reason = error
            if time.monotonic() + again_s > deadline_s:
                raise self.unreachable(str(reason)) from reason
            await asyncio.sleep(again_s)
            again_s = min(2 * again_s, _AGAIN_MOST_S)

    def unreachable(self, reason: str) -> UnreachableClusterError:
        """The sentence that all who waited too long have in common."""
        return UnreachableClusterError(
            f"The cluster of option 'nameserver' ({'; '.join(self.options.nameservers)}) gave no answer within the "
            f"{self.options.retry_ms / 1000:g} s of option 'retryTimeout': {reason}"
        )

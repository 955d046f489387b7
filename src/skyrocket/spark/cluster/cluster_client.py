"""A blocking client for Spark's driver and tasks: asks a cluster about topics, queues and offsets, and retries until it answers.

    cluster = ClusterClient(options.cluster)
    queues = cluster.queues(["orders"])["orders"]
    cluster.last_offsets(queues)                      # {queue: one past its last message}

Topic and group names are the user's; this client adds the namespace. One call asks about many queues concurrently.
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
from skyrocket.spark.cluster.cluster_sessions import shared_session
from skyrocket.spark.errors import RequestRefusedError, UnreachableClusterError
from skyrocket.spark.options.cluster_options import ClusterOptions

T = TypeVar("T")
Offsets = dict[Queue, int]

CONCURRENT_QUEUES_MAX: Final = 64  # of one call
_PAUSE_FIRST_S: Final = 0.1  # after the first failure; doubled after each further one
_PAUSE_S_MAX: Final = 2.0

_NO_ANSWER: Final = (NoNameserverError, UnreachableError, DisconnectedError, TimedOutError, OverloadedError)
_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})


class ClusterClient:
    def __init__(self, options: ClusterOptions) -> None:
        self.options = options

    # --- topics, queues and brokers

    def topics(self) -> list[str]:
        """Return all topics except system, retry and dead-letter topics."""
        found = self._call(lambda session: TopicAdmin(Brokers(session)).names())
        return [topic for topic in found if not is_internal_topic(topic)]

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[Queue, ...]]:
        """Return the readable queues of each topic, by fresh routes. A topic that does not exist has none."""
        wanted = tuple(dict.fromkeys(topics))

        async def ask(session: Session) -> dict[str, tuple[Queue, ...]]:
            await self._refresh_routes(session, wanted)
            found = {}
            for topic in wanted:
                route = session.routes.route(self.wire(topic))
                found[topic] = tuple(queue._replace(topic=topic) for queue in sorted(route.to_read)) if route else ()
            return found

        return self._call(ask)

    def address(self, queue: Queue, broker_id: int = MASTER_ID, *, fresh: bool = False) -> str:
        """Return the address of the broker with this id that has the queue, or of another broker of its name.

        `fresh` asks the nameservers again.
        """

        async def ask(session: Session) -> str:
            if fresh or session.routes.any_address(queue.broker_name) is None:
                await self._refresh_routes(session, (queue.topic,))
            address = session.routes.address(queue.broker_name, broker_id) or session.routes.any_address(queue.broker_name)
            if address is None:
                raise UnreachableError(f"The nameservers have no address of broker {queue.broker_name}, which has {queue}.")
            return address

        return self._call(ask)

    def brokers_without_master(self, brokers: Iterable[str]) -> frozenset[str]:
        """Return the brokers for which the last route has slaves only."""
        names = tuple(brokers)

        async def ask(session: Session) -> frozenset[str]:
            return frozenset(name for name in names if session.routes.address(name) is None)

        return self._call(ask)

    # --- offsets

    def first_offsets(self, queues: Iterable[Queue], *, partial: bool = False) -> Offsets:
        """Return the offset of each queue's first message. `partial` leaves out queues whose broker does not answer at once."""
        found = self._for_each_queue(queues, lambda offsets, queue: offsets.min_offset(queue), partial=partial)
        return {queue: max(0, offset) for queue, offset in found.items()}

    def last_offsets(self, queues: Iterable[Queue], *, partial: bool = False) -> Offsets:
        """Return one past the offset of each queue's last message."""
        return self._for_each_queue(queues, lambda offsets, queue: offsets.max_offset(queue), partial=partial)

    def offsets_at(self, timestamps: Mapping[Queue, int]) -> Offsets:
        """Return the offset of the first message stored at the timestamp (ms) or later; without one, the queue's end."""
        wire = {self._wire_queue(queue): timestamp for queue, timestamp in timestamps.items()}
        return self._for_each_queue(timestamps, lambda offsets, queue: offsets.offset_at(queue, wire[queue]))

    def commit_offsets(self, group: str, offsets: Mapping[Queue, int], *, partial: bool = False) -> set[Queue]:
        """Commit a group's offsets. Return the queues whose broker took them: all, unless `partial`."""
        wire = {self._wire_queue(queue): offset for queue, offset in offsets.items()}
        return set(self._for_each_queue(offsets, lambda at, queue: at.commit(queue, wire[queue]), group=group, partial=partial))

    def register_group(self, group: str, offsets: Mapping[Queue, int]) -> None:
        """Make a group known to the brokers of these queues, which accept offsets only of groups that they know.

        One pull at these offsets registers the group, where the broker allows it. The pull mostly returns nothing.
        """
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

        self._call(ask)

    # --- filters

    def check_subscription(self, group: str, subscription: Subscription, queues: Iterable[Queue]) -> None:
        """Raise RequestRefusedError if a broker of these queues refuses this SQL92 expression.

        Without this check, a broker of Apache's that does not filter would return every message.
        """
        brokers = {queue.broker_name: queue for queue in queues}

        async def ask(session: Session) -> None:
            await self._refresh_routes(session, {queue.topic for queue in brokers.values()})
            for queue in brokers.values():
                address = session.routes.any_address(queue.broker_name)
                if address is None:
                    raise UnreachableError(f"The nameservers have no address of broker {queue.broker_name}.")
                body = CheckClientRequestBody(
                    client_id=new_client_id(session.address, ""),
                    group=self.wire(group),
                    subscription_data=subscription._replace(topic=self.wire(queue.topic)).as_body(),
                )
                await session.request_ok(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode(body))

        self._call(ask)

    # --- requests

    def wire(self, name: str) -> str:
        """Return a topic's or group's name with its namespace, as brokers store it."""
        return with_namespace(self.options.namespace, name)

    def _wire_queue(self, queue: Queue) -> Queue:
        return queue._replace(topic=self.wire(queue.topic))

    def _for_each_queue(
        self,
        queues: Iterable[Queue],
        ask: Callable[[QueueOffsets, Queue], Awaitable[T]],
        *,
        group: str = "",
        partial: bool = False,
    ) -> dict[Queue, T]:
        wanted = tuple(dict.fromkeys(queues))

        async def ask_all(session: Session) -> dict[Queue, T]:
            await self._refresh_routes(session, {queue.topic for queue in wanted})
            offsets, limit = QueueOffsets(session, self.wire(group)), asyncio.Semaphore(CONCURRENT_QUEUES_MAX)

            async def ask_one(queue: Queue) -> T:
                async with limit:
                    return await ask(offsets, self._wire_queue(queue))

            results = await asyncio.gather(*map(ask_one, wanted), return_exceptions=True)
            found: dict[Queue, T] = {}
            for queue, result in zip(wanted, results, strict=True):
                if not isinstance(result, BaseException):
                    found[queue] = result
                elif not (partial and isinstance(result, _NO_ANSWER)):
                    raise result
            return found

        return self._call(ask_all) if wanted else {}

    async def _refresh_routes(self, session: Session, topics: Iterable[str]) -> None:
        """Fetch the routes of these topics again. Known broker addresses stay, even of a broker that is briefly gone."""

        async def refresh(topic: str) -> None:
            session.routes.forget(topic)
            await session.route(topic)

        await asyncio.gather(*(refresh(self.wire(topic)) for topic in topics))

    def _call(self, ask: Callable[[Session], Awaitable[T]]) -> T:
        return run(self._retry_until_answered(ask))

    async def _retry_until_answered(self, ask: Callable[[Session], Awaitable[T]]) -> T:
        deadline_s, pause_s = time.monotonic() + self.options.retry_ms / 1000, _PAUSE_FIRST_S
        while True:
            try:
                async with shared_session(self.options) as session:
                    return await ask(session)
            except BrokerError as error:
                if error.code not in _BUSY:
                    raise RequestRefusedError(str(error)) from error
                reason: ClientError = error
            except _NO_ANSWER as error:
                reason = error
            if time.monotonic() + pause_s > deadline_s:
                raise self.unreachable_error(str(reason)) from reason
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def unreachable_error(self, reason: str) -> UnreachableClusterError:
        """Return the error of a caller whose `retryTimeout` has passed."""
        return UnreachableClusterError(
            f"The cluster of option '{self.options.named_by}' ({self.options.where}) did not answer within "
            f"{self.options.retry_ms / 1000:g} s (option 'retryTimeout'): {reason}"
        )

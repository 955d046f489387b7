"""Rebalancing: decides which queues this member consumes, after members or routes have changed.

The decision is pure: `allocate_queues` in `strategies`, and `assignment_change` here. The code around it fetches the members of
the group from a broker, revokes queues before it assigns new ones, and soon repeats a rebalance that was incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from skyrocket.client.consumer.handlers import CallResult
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.strategies import RebalanceError, Strategy, allocate_queues
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.bodies import GetConsumerListByGroupResponseBody
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import GetConsumerListByGroupRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC, RETRY_PREFIX

log = logging.getLogger(__name__)


class AssignmentChange(NamedTuple):
    """Queues to revoke, and queues to assign."""

    revoked: list[Queue]
    assigned: list[Queue]
    since_ms: int | None = None  # when the topic's first rebalance began; None: this is the first


def assignment_change(before: Iterable[Queue], after: Iterable[Queue]) -> AssignmentChange:
    """Compare two assignments."""
    old, new = set(before), dict.fromkeys(after)
    return AssignmentChange([queue for queue in old if queue not in new], [queue for queue in new if queue not in old])


class Rebalancer:
    """Keeps the assignment of one member up to date."""

    def __init__(
        self,
        session: Session,
        group: str,
        subscriptions: Mapping[str, Subscription],
        strategy: Strategy | None,
        limits: ConsumerLimits,
        *,
        assigned: Callable[[], Iterable[Queue]],
        apply: Callable[[AssignmentChange], Awaitable[bool]],
    ) -> None:
        """Without a `strategy` every queue is assigned, as for a broadcasting consumer. `assigned` returns the queues that are
        assigned now. `apply` carries a change out, and returns whether all of it was possible."""
        self._session = session
        self._group = group
        self._subscriptions = subscriptions
        self._strategy = strategy
        self._limits = limits
        self._assigned = assigned
        self._apply = apply
        self._requested = asyncio.Event()
        self._unknown_topics: set[str] = set()  # topics without a route; each is logged once, and looked for until it exists
        self._since_ms: dict[str, int] = {}  # topic -> when its first rebalance began

    def rebalance_soon(self) -> None:
        """Make `run` rebalance now."""
        self._requested.set()

    async def run(self) -> None:
        """Rebalance periodically, and after each `rebalance_soon`. An incomplete rebalance is repeated with growing delays."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._rebalance_forever())
            tasks.create_task(self._look_for_topics())

    async def _rebalance_forever(self) -> None:
        again_ms = self._limits.rebalance_again_ms
        is_complete = False
        while True:
            wait_ms = self._limits.rebalance_ms if is_complete else min(again_ms, self._limits.rebalance_ms)
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._requested.wait()
            except TimeoutError:
                pass
            self._requested.clear()
            is_complete = await self.rebalance()
            again_ms = self._limits.rebalance_again_ms if is_complete else again_ms * 2

    async def _look_for_topics(self) -> None:
        """Look for topics that do not exist yet: often if this client knows a broker, where they probably come up.

        A route that is found causes a rebalance.
        """
        session, limits = self._session, self._limits
        while True:
            is_known = bool(session.routes.addresses(slaves=False))
            await asyncio.sleep((limits.unknown_topic_ms if is_known else limits.unknown_broker_ms) / 1000)
            for topic in sorted(self._unknown_topics & self._subscriptions.keys()):
                try:
                    await session.fetch_route(topic)
                except ClientError as error:  # the next rebalance logs it
                    log.debug("Topic '%s' could not be looked for: %s", topic, error)
                    break

    async def rebalance(self) -> bool:
        """Rebalance all topics. Returns whether the assignment is complete; failures are logged."""
        is_complete = True
        for topic in list(self._subscriptions):
            try:
                is_complete &= await self.rebalance_topic(topic)
            except ClientError as error:
                log.warning("Topic '%s' could not be rebalanced: %s", topic, error)
                is_complete = False
        for topic in self._since_ms.keys() - self._subscriptions.keys():
            del self._since_ms[topic]
        unsubscribed = [queue for queue in self._assigned() if queue.topic not in self._subscriptions]
        if unsubscribed:
            is_complete &= await self._apply(AssignmentChange(unsubscribed, []))
        return is_complete

    async def rebalance_topic(self, topic: str) -> bool:
        """Rebalance one topic. Returns whether its assignment is complete."""
        since_ms = self._since_ms.get(topic)
        if since_ms is None:
            self._since_ms[topic] = time.time_ns() // 1_000_000
        route = await self._session.route(topic)
        if route is None or route.is_borrowed:  # borrowed: the topic was about to be created when the route was fetched
            return await self._note_unknown_topic(topic)
        self._unknown_topics.discard(topic)
        queues: list[Queue] = list(route.to_read)
        is_complete = True
        if self._strategy is not None and queues:
            members = await self._fetch_members(topic)
            if not members:
                return False
            if self._session.client_id not in members:  # the broker has no heartbeat of this client, or lost it
                await self._session.send_heartbeats()
                is_complete = False
            queues = self._allocate(self._strategy, route.to_read, members)
        change = assignment_change([queue for queue in self._assigned() if queue.topic == topic], queues)
        if change.revoked or change.assigned:
            is_complete &= await self._apply(change._replace(since_ms=since_ms))
        return is_complete

    def _allocate(self, strategy: Strategy, queues: Iterable[Queue], members: list[str]) -> list[Queue]:
        result = CallResult()  # a strategy may be a user's own code
        allocated: list[Queue] = []
        with result:
            allocated = allocate_queues(strategy, self._group, self._session.client_id, queues, members)
        if result.error is not None:
            raise RebalanceError(f"The rebalance strategy {strategy.name} failed: {result.error!r}") from result.error
        return allocated

    async def _note_unknown_topic(self, topic: str) -> bool:
        """Log a topic without a route once, and have it looked for. Returns whether the assignment is complete without it."""
        if topic.startswith(RETRY_PREFIX):  # a broker creates it after the first heartbeat: the next rebalance finds it
            return False
        if topic not in self._unknown_topics:
            self._unknown_topics.add(topic)
            log.warning("Topic '%s' does not exist yet. Group '%s' consumes it as soon as it exists.", topic, self._group)
            # The brokers that create topics with their first message get to know the group before that message comes.
            if await self._session.route(DEFAULT_TOPIC) is not None:
                await self._session.send_heartbeats()
        return True

    async def _fetch_members(self, topic: str) -> list[str]:
        """Fetch the client ids of the group from any broker of the topic: each member sends heartbeats to all of them.

        Empty if the brokers have no member of the group.
        """
        route = self._session.routes.route(topic)
        header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
        failure: ClientError | None = None
        for broker in route.brokers if route is not None else ():
            address = self._session.routes.any_address(broker)
            if address is None:
                continue
            try:
                answer = await self._session.request_ok(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            except BrokerError as error:
                if error.code == ResponseCode.NO_PERMISSION:
                    raise
                failure = error  # Apache's broker answers with an error if it has no member of the group
                await self._session.send_heartbeats()
            except ClientError as error:
                failure = error
            else:
                return decode(answer.body, GetConsumerListByGroupResponseBody).consumer_id_list or []
        if failure is not None and not isinstance(failure, BrokerError):
            raise failure
        return []

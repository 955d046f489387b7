"""Rebalancing: which queues are ours, now that members have come or gone, or routes have changed.

The decision is pure (`share` in `strategies`, `change` here); around it, brokers are asked who the members are, queues are let
go of before new ones are taken, and what could not be finished is tried again soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from skyrocket.client.consumer.dispatch.handler_runner import Trial
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.strategies import RebalanceError, Strategy, share
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.bodies import GetConsumerListByGroupResponseBody
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import GetConsumerListByGroupRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import RETRY_PREFIX

log = logging.getLogger(__name__)


class Change(NamedTuple):
    lost: list[Queue]
    won: list[Queue]


def change(held: Iterable[Queue], ours: Iterable[Queue]) -> Change:
    """From what is held of a topic to what is ours of it."""
    before, after = set(held), dict.fromkeys(ours)
    return Change([queue for queue in before if queue not in after], [queue for queue in after if queue not in before])


class Rebalancing:
    def __init__(
        self,
        session: Session,
        group: str,
        subscriptions: Mapping[str, Subscription],
        strategy: Strategy | None,
        limits: ConsumerLimits,
        *,
        held: Callable[[], Iterable[Queue]],
        apply: Callable[[Change], Awaitable[bool]],
        changed: Callable[[str, list[Queue]], None] | None = None,
    ) -> None:
        """Without a `strategy` every queue is ours: a broadcasting consumer's. `apply` does what a change says, and tells
        whether all of it could be done; `changed` hears of each topic whose share is another now."""
        self._session = session
        self._group = group
        self._subscriptions = subscriptions
        self._strategy = strategy
        self._limits = limits
        self._held = held
        self._apply = apply
        self._changed = changed
        self._soon = asyncio.Event()
        self._unknown: set[str] = set()  # topics without a route, of which the log has a line

    def soon(self) -> None:
        self._soon.set()

    async def run(self) -> None:
        """Every so often, and whenever `soon` is called. One that is not complete is tried again, less and less often."""
        again_ms = self._limits.rebalance_again_ms
        complete = False
        while True:
            wait_ms = self._limits.rebalance_ms if complete else min(again_ms, self._limits.rebalance_ms)
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            complete = await self.balance()
            again_ms = self._limits.rebalance_again_ms if complete else again_ms * 2

    async def balance(self) -> bool:
        """Whether everything is as it should be now. What cannot be done is logged."""
        complete = True
        for topic in list(self._subscriptions):
            try:
                complete &= await self.balance_topic(topic)
            except ClientError as error:
                log.warning("The queues of topic '%s' could not be shared out: %s", topic, error)
                complete = False
        gone = [queue for queue in self._held() if queue.topic not in self._subscriptions]
        if gone:
            complete &= await self._apply(Change(gone, []))
        return complete

    async def balance_topic(self, topic: str) -> bool:
        route = await self._session.route(topic)
        if route is None or route.is_borrowed:
            if route is not None:
                self._session.refresh_soon(topic)  # it was about to be created when we looked
            return self._no_route(topic)
        self._unknown.discard(topic)
        ours: list[Queue] = list(route.to_read)
        complete = True
        if self._strategy is not None and ours:
            members = await self._members(topic)
            if not members:
                return False
            if self._session.client_id not in members:  # a broker that has forgotten us, or does not know us yet
                await self._session.send_heartbeats()
                complete = False
            ours = self._share(self._strategy, route.to_read, members)
        difference = change([queue for queue in self._held() if queue.topic == topic], ours)
        if difference.lost or difference.won:
            complete &= await self._apply(difference)
            if self._changed is not None:
                self._changed(topic, [queue for queue in self._held() if queue.topic == topic])
        return complete

    def _share(self, strategy: Strategy, queues: Iterable[Queue], members: list[str]) -> list[Queue]:
        trial = Trial()  # a strategy may be a user's own
        ours: list[Queue] = []
        with trial:
            ours = share(strategy, self._group, self._session.client_id, queues, members)
        if trial.error is not None:
            raise RebalanceError(f"The strategy {strategy.name} failed: {trial.error!r}") from trial.error
        return ours

    def _no_route(self, topic: str) -> bool:
        if topic not in self._unknown:
            self._unknown.add(topic)
            if not topic.startswith(RETRY_PREFIX):
                log.warning("Topic '%s' does not exist yet; group '%s' consumes it as soon as it does.", topic, self._group)
        return False

    async def _members(self, topic: str) -> list[str]:
        """As some broker of the topic knows them: all know all. None when none of them answers."""
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
                failure = error  # Apache's way to say that it has heard of no member
                await self._session.send_heartbeats()
            except ClientError as error:
                failure = error
            else:
                return decode(answer.body, GetConsumerListByGroupResponseBody).consumer_id_list or []
        if failure is not None and not isinstance(failure, BrokerError):
            raise failure
        return []

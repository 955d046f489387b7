"""Check whether a pull may be served, and which messages it selects, before anything is read."""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import GroupNotFoundError, TopicNotFoundError
from skyrocket.broker.pull.filters import MessageFilter
from skyrocket.net.router import RefusedError
from skyrocket.protocol.bodies import SubscriptionData, SubscriptionGroupConfig
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PERM_READ, PULL_SUBSCRIPTION


class PullTerms(NamedTuple):
    """What the checks found for a pull that may be served."""

    message_filter: MessageFilter
    topic_sys_flag: int
    group: SubscriptionGroupConfig
    subscription: SubscriptionData | None = None  # of the pull's group, unless the pull brings its own


class PullChecks:
    def __init__(self, context: BrokerContext) -> None:
        self._topics = context.topics
        self._groups = context.groups
        self._clients = context.clients
        self._settings = context.settings
        self._filters = context.filters

    def basis(self, group_name: str, topic_name: str) -> tuple[object, ...]:
        """Return all that the terms of a group's pulls depend on, beside their headers. While it is equal, so are the terms."""
        group, topic, members = self._groups.get(group_name), self._topics.get(topic_name), self._clients.group(group_name)
        return (
            self._settings(),
            None if group is None else (group, group.consume_enable, group.consume_broadcast_enable),
            None if topic is None else (topic.perm, topic.read_queue_nums, topic.topic_sys_flag),
            self._groups.is_forbidden(group_name, topic_name),
            None if members is None else (members.subscriptions.get(topic_name), members.is_broadcasting),
        )

    def check(self, header: PullMessageRequestHeader) -> PullTerms:
        """Return the terms of a pull; raise RefusedError or TableError when it may not be served."""
        settings = self._settings()
        if not settings.permission & PERM_READ:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Broker {settings.broker_name} gives no messages.")
        group = self._groups.for_consumer(header.consumer_group)
        if group is None:
            raise GroupNotFoundError(f"There is no group '{header.consumer_group}'.")
        if not group.consume_enable:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Group '{header.consumer_group}' may not consume.")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise TopicNotFoundError(f"Topic '{header.topic}' does not exist.")
        if not topic.perm & PERM_READ:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Topic '{header.topic}' gives no messages.")
        if self._groups.is_forbidden(header.consumer_group, header.topic):
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Group '{header.consumer_group}' may not consume '{header.topic}'.")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"Topic '{header.topic}' has {topic.read_queue_nums} queues; there is no queue {header.queue_id}.",
            )
        if header.sys_flag & PULL_SUBSCRIPTION:
            return PullTerms(self._filters.for_pull(header), topic.topic_sys_flag, group)
        subscription = self._subscription(header, group)
        return PullTerms(self._filters.for_subscription(subscription), topic.topic_sys_flag, group, subscription)

    def _subscription(self, header: PullMessageRequestHeader, group: SubscriptionGroupConfig) -> SubscriptionData:
        """Return the subscription from the heartbeats of the pull's group."""
        name = header.consumer_group
        if not self._clients.has_group(name):
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"Nobody of group '{name}' has sent a heartbeat.")
        if self._clients.is_broadcasting(name) and not group.consume_broadcast_enable:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Group '{name}' may not consume by broadcasting.")
        subscription = self._clients.subscription(name, header.topic)
        if subscription is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"Group '{name}' does not subscribe to '{header.topic}'.")
        if subscription.sub_version < header.sub_version:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, f"The subscription of group '{name}' is older than the pull's."
            )
        return subscription

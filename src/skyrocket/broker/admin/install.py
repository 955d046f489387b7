"""Install the requests of administrators: settings, topics, groups, progress, messages and statistics."""

from __future__ import annotations

from skyrocket.broker.admin.broker import BrokerHandlers
from skyrocket.broker.admin.broker_stats import BrokerStatsHandlers
from skyrocket.broker.admin.consume_stats import ConsumeStatsHandlers
from skyrocket.broker.admin.messages import MessageQueryHandlers
from skyrocket.broker.admin.replication import ReplicationHandlers
from skyrocket.broker.admin.reset_offsets import ResetOffsetHandlers
from skyrocket.broker.admin.subscription_groups import SubscriptionGroupHandlers
from skyrocket.broker.admin.topics import TopicHandlers
from skyrocket.broker.context import BrokerContext


def install(context: BrokerContext) -> None:
    """Build the handlers of each noun and register their requests."""
    for handlers in (
        BrokerHandlers(context),
        BrokerStatsHandlers(context),
        ConsumeStatsHandlers(context),
        MessageQueryHandlers(context),
        ReplicationHandlers(context),
        ResetOffsetHandlers(context),
        SubscriptionGroupHandlers(context),
        TopicHandlers(context),
    ):
        handlers.register(context.router)

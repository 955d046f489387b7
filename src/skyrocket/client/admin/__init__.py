"""Administration of a cluster, ours or Apache's: one room for each noun, `Admin` in front of them."""

from skyrocket.client.admin.admin import Admin, AdminOptions
from skyrocket.client.admin.results import (
    Broker,
    BrokerState,
    GroupMember,
    GroupMembers,
    GroupProgress,
    GroupSettings,
    ProducerClient,
    QueueOffset,
    QueueProgress,
    QueueStatus,
    TopicBroker,
    TopicRoute,
    TopicSettings,
    TopicStatus,
)

__all__ = [
    "Admin",
    "AdminOptions",
    "Broker",
    "BrokerState",
    "GroupMember",
    "GroupMembers",
    "GroupProgress",
    "GroupSettings",
    "ProducerClient",
    "QueueOffset",
    "QueueProgress",
    "QueueStatus",
    "TopicBroker",
    "TopicRoute",
    "TopicSettings",
    "TopicStatus",
]

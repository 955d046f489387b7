"""Administration of a cluster, ours or Apache's: `Admin`, with one class for each kind of thing that it manages."""

from skyrocket.client.admin.admin import Admin, AdminOptions
from skyrocket.client.admin.results import (
    AccessRule,
    AccessUser,
    BrokerInfo,
    BrokerState,
    ConsumerClient,
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
    TraceStep,
)

__all__ = [
    "AccessRule",
    "AccessUser",
    "Admin",
    "AdminOptions",
    "BrokerInfo",
    "BrokerState",
    "ConsumerClient",
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
    "TraceStep",
]

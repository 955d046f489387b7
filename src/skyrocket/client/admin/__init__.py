"""Administration of a cluster, ours or Apache's: `Admin`, with one class for each kind of thing that it manages."""

from skyrocket.client.admin.admin import Admin, AdminOptions
from skyrocket.client.admin.results import (
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

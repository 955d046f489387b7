"""The client: producers, consumers and helpers, for any RocketMQ cluster. asyncio first; `skyrocket.client.sync` for the rest.

What a user needs is importable from here. Inside: `session` holds connections, routes and heartbeats for all clients of a loop;
`producer` and `transactions` send through `delivery`.
"""

from skyrocket.client.acl import Credentials
from skyrocket.client.admin import Admin
from skyrocket.client.consumer import Consumer
from skyrocket.client.consumer_limits import ConsumerLimits
from skyrocket.client.dedup import Deduplicator, InProgressError
from skyrocket.client.dedup_memory import MemoryClaims
from skyrocket.client.errors import (
    Attempt,
    BrokerError,
    ClientClosedError,
    ClientError,
    ConfigurationError,
    DisconnectedError,
    InvalidMessageError,
    NoNameserverError,
    NoRouteError,
    NotFoundError,
    OverloadedError,
    ReplyError,
    RequestTimedOutError,
    SendFailedError,
    SendTimedOutError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.client.handlers import RetryLater, Verdict
from skyrocket.client.limits import ClientLimits
from skyrocket.client.loss import LossDetector, LossReport, StreamReport
from skyrocket.client.message import Message
from skyrocket.client.producer import Producer
from skyrocket.client.pull_consumer import PullConsumer
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, SendStatus
from skyrocket.client.received import Received
from skyrocket.client.subscription import Sql, sql
from skyrocket.client.transactions import Outcome, TransactionProducer, TransactionReceipt
from skyrocket.client.versions import VersionCheck

__all__ = [
    "Admin",
    "Attempt",
    "BrokerError",
    "ClientClosedError",
    "ClientError",
    "ClientLimits",
    "ConfigurationError",
    "Consumer",
    "ConsumerLimits",
    "Credentials",
    "Deduplicator",
    "DisconnectedError",
    "InProgressError",
    "InvalidMessageError",
    "LossDetector",
    "LossReport",
    "MemoryClaims",
    "Message",
    "NoNameserverError",
    "NoRouteError",
    "NotFoundError",
    "Outcome",
    "OverloadedError",
    "Producer",
    "PullConsumer",
    "Queue",
    "Receipt",
    "Received",
    "ReplyError",
    "RequestTimedOutError",
    "RetryLater",
    "SendFailedError",
    "SendStatus",
    "SendTimedOutError",
    "Sql",
    "StreamReport",
    "TimedOutError",
    "TransactionProducer",
    "TransactionReceipt",
    "UnreachableError",
    "Verdict",
    "VersionCheck",
    "sql",
]

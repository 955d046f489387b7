"""The client: producers, consumers and administration for any RocketMQ cluster, with asyncio.

    from skyrocket.client import Consumer, Message, Producer        everything that most applications need
    from skyrocket.client.sync import Consumer, Message, Producer   the same names without await, for threads
    from skyrocket.client.helpers import Deduplicator, Tracing      deduplication, version checks, loss detection, tracing

Inside: `session` has the connections, routes and heartbeats that the clients of one event loop share. `producer`, `consumer` and
`admin` are built on it. Each name is imported on first use: a program that only sends does not import consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyrocket.client.lazy_names import lazy_names

if TYPE_CHECKING:
    from skyrocket.client.admin import Admin
    from skyrocket.client.consumer.consumer import Consumer
    from skyrocket.client.consumer.dispatch.load_shedding import Skipped
    from skyrocket.client.consumer.handlers import RetryLater, Verdict
    from skyrocket.client.consumer.interceptors import ConsumerInterceptor
    from skyrocket.client.consumer.limits import ConsumerLimits
    from skyrocket.client.consumer.pull_consumer import PullConsumer
    from skyrocket.client.consumer.subscription import Sql, sql
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
    from skyrocket.client.helpers.deduplication import Deduplicator, InProgressError
    from skyrocket.client.helpers.deduplication_memory import MemoryClaims
    from skyrocket.client.helpers.loss_detection import LossDetector, LossReport, StreamReport
    from skyrocket.client.helpers.versions import VersionCheck
    from skyrocket.client.limits import ClientLimits
    from skyrocket.client.message import Message
    from skyrocket.client.options import ClientOptions
    from skyrocket.client.producer.interceptors import ProducerInterceptor
    from skyrocket.client.producer.producer import Producer
    from skyrocket.client.producer.transactions import Outcome, TransactionProducer, TransactionReceipt
    from skyrocket.client.queues import Queue
    from skyrocket.client.receipt import Receipt, SendStatus
    from skyrocket.client.received import Received
    from skyrocket.client.session.credentials import Credentials

__all__ = [
    "Admin",
    "Attempt",
    "BrokerError",
    "ClientClosedError",
    "ClientError",
    "ClientLimits",
    "ClientOptions",
    "ConfigurationError",
    "Consumer",
    "ConsumerInterceptor",
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
    "ProducerInterceptor",
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
    "Skipped",
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

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "admin": ("Admin",),
            "consumer.consumer": ("Consumer",),
            "consumer.dispatch.load_shedding": ("Skipped",),
            "consumer.handlers": ("RetryLater", "Verdict"),
            "consumer.interceptors": ("ConsumerInterceptor",),
            "consumer.limits": ("ConsumerLimits",),
            "consumer.pull_consumer": ("PullConsumer",),
            "consumer.subscription": ("Sql", "sql"),
            "errors": (
                "Attempt",
                "BrokerError",
                "ClientClosedError",
                "ClientError",
                "ConfigurationError",
                "DisconnectedError",
                "InvalidMessageError",
                "NoNameserverError",
                "NoRouteError",
                "NotFoundError",
                "OverloadedError",
                "ReplyError",
                "RequestTimedOutError",
                "SendFailedError",
                "SendTimedOutError",
                "TimedOutError",
                "UnreachableError",
            ),
            "helpers.deduplication": ("Deduplicator", "InProgressError"),
            "helpers.deduplication_memory": ("MemoryClaims",),
            "helpers.loss_detection": ("LossDetector", "LossReport", "StreamReport"),
            "helpers.versions": ("VersionCheck",),
            "limits": ("ClientLimits",),
            "message": ("Message",),
            "options": ("ClientOptions",),
            "producer.interceptors": ("ProducerInterceptor",),
            "producer.producer": ("Producer",),
            "producer.transactions": ("Outcome", "TransactionProducer", "TransactionReceipt"),
            "queues": ("Queue",),
            "receipt": ("Receipt", "SendStatus"),
            "received": ("Received",),
            "session.credentials": ("Credentials",),
        },
    )

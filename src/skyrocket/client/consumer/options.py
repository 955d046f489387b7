"""The options of a consumer, and the check that they fit together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from skyrocket.client.consumer.interceptors import ConsumerInterceptor
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.client.consumer.strategies import Strategy
from skyrocket.client.consumer.subscription import TopicSelection
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import ClientKeywords, ClientOptions

if TYPE_CHECKING:
    from skyrocket.client.helpers.tracing import Tracing

CONCURRENCY_MAX = 1_000
BROADCAST_INSTANCE = "DEFAULT"  # the default instance of a broadcasting consumer: constant, so that it finds its offset file


class ConsumerOptions(ClientKeywords, total=False):
    """The keyword arguments of `Consumer`, which defines their defaults."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits
    group: str  # members of a group share the queues and the committed offsets
    topics: TopicSelection | None  # {"orders": "paid || shipped", "prices": sql("amount > 100")}, or only names
    start: Start  # where a group without committed offsets starts: "first", "last", a datetime or milliseconds since 1970
    concurrency: int  # how many handlers run at the same time
    orderly: bool  # handle each queue in order; a message that fails blocks its queue
    auto_commit: bool  # orderly only; if False, handlers return Verdict.COMMIT or ROLLBACK
    broadcasting: bool  # every member gets every message; offsets are kept in a local file
    offsets_folder: Path | str | None  # folder of that file; None: .rocketmq_offsets in the home directory, as Java's
    retries_max: int | None  # None: the broker's setting of the group; for orderly consumers: without limit
    strategy: Strategy | None  # how the group divides the queues; None: Averagely
    close_timeout_ms: int  # how long `close` waits for handlers
    consumer_limits: ConsumerLimits | None  # cache bounds and periods
    skip_when_behind: int | None  # skip a message that has more newer ones than this in its queue: `message.behind`
    skip_older_than: timedelta | int | None  # skip a message that was stored longer ago; an int is in milliseconds
    rate_limit: float | None  # handle at most so many messages a second, all topics together; skipped ones do not count
    interceptors: Sequence[ConsumerInterceptor]  # called around every call of a handler, in this order
    trace: bool | str  # write RocketMQ's message trace to RMQ_SYS_TRACE_TOPIC, or to the topic of this name; handlers only
    tracing: Tracing | None  # OpenTelemetry spans for handler calls


def check_options(*, concurrency: int, orderly: bool, auto_commit: bool, broadcasting: bool, retries_max: int | None) -> None:
    """Raise ConfigurationError if an option is out of range, or if options contradict each other."""
    if not 0 < concurrency <= CONCURRENCY_MAX:
        raise ConfigurationError(f"concurrency must be 1 to {CONCURRENCY_MAX}, not {concurrency}.")
    if not auto_commit and not orderly:
        raise ConfigurationError("auto_commit=False needs orderly=True: without order there is no position to commit.")
    if retries_max is not None and retries_max < 0:
        raise ConfigurationError(f"retries_max must not be negative, but is {retries_max}.")
    if broadcasting and retries_max is not None and not orderly:
        raise ConfigurationError("retries_max has no effect with broadcasting=True: broadcast messages are not retried.")

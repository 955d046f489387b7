"""What a consumer is made with beside its nameservers, and what of it cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.client.consumer.strategies import Strategy
from skyrocket.client.consumer.subscription import Topics
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import ClientKeywords, ClientOptions

if TYPE_CHECKING:
    from skyrocket.client.helpers.tracing import Tracing

CONCURRENCY_MAX = 1_000
BROADCASTER = "DEFAULT"  # a broadcasting consumer's instance where none is given: it must find its file again


class ConsumerOptions(ClientKeywords, total=False):
    """The keyword arguments of `Consumer`, which defines their defaults."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits
    group: str  # its members share the queues, and its offsets are kept together
    topics: Topics | None  # {"orders": "paid || shipped", "prices": sql("amount > 100")}, or names alone
    start: Start  # where a group begins that was never here: "first", "last", a datetime or milliseconds since 1970
    concurrency: int  # handlers at work at the same time
    orderly: bool  # queue by queue, each in order; a message that fails holds its queue
    auto_commit: bool  # orderly only: False leaves it to handlers, which return Verdict.COMMIT or ROLLBACK
    broadcasting: bool  # every member gets every message; offsets are kept in a file here
    offsets_folder: Path | str | None  # of that file; None: .rocketmq_offsets in the home directory, as Java's
    retries_max: int | None  # None: what the broker says for the group; orderly consumers: without end
    strategy: Strategy | None  # who of the group gets which queue; None: averagely
    close_timeout_ms: int  # how long `close` waits for handlers
    consumer_limits: ConsumerLimits | None  # what may be cached, and every period
    tracing: Tracing | None  # spans of OpenTelemetry, of each call of a handler


def check_options(*, concurrency: int, orderly: bool, auto_commit: bool, broadcasting: bool, retries_max: int | None) -> None:
    if not 0 < concurrency <= CONCURRENCY_MAX:
        raise ConfigurationError(f"A consumer runs 1 to {CONCURRENCY_MAX} handlers at a time, not {concurrency}.")
    if not auto_commit and not orderly:
        raise ConfigurationError("Only an orderly consumer can commit by hand: others have no order to commit in.")
    if retries_max is not None and retries_max < 0:
        raise ConfigurationError(f"A message cannot be retried {retries_max} times.")
    if broadcasting and retries_max is not None and not orderly:
        raise ConfigurationError("Broadcast messages are not retried, so retries_max means nothing.")

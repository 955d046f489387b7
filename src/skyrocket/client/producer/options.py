"""The options of a producer beside those that all clients share (`ClientOptions`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skyrocket.client.options import ClientKeywords, ClientOptions

if TYPE_CHECKING:
    from skyrocket.client.helpers.tracing import Tracing
    from skyrocket.client.producer.interceptors import ProducerInterceptor

GROUP_DEFAULT: Final = "PYTHON_PRODUCER"
BATCH_BYTES_MAX: Final = 256 * 1024
BATCH_MESSAGES_MAX: Final = 1_000


class ProducerOptions(ClientKeywords, total=False):
    """The keyword arguments of `Producer`, which defines their defaults."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits
    group: str  # the producer group; brokers check transactions with any member of it
    timeout_ms: int  # of a whole send: route lookup, connection, every attempt
    retries: int  # attempts beyond the first, at another broker where there is one
    attempt_timeout_ms: int | None  # of one attempt, when another may follow; None: the whole send's
    retry_unsafe: bool  # try another broker when one stored the message but its flush or replica was late
    avoid_slow_brokers: bool | Sequence[tuple[int, int]]  # skip slow and failing brokers: Apache's sendLatencyFaultEnable.
    # True: pauses as in `broker_latency.STEPS`; or a table of your own, (latency_ms, pause_ms) pairs, such as SHORT_STEPS
    compression: str | None  # of bodies of compress_over_bytes and more: zlib, lz4, zstd or None
    compress_over_bytes: int
    compression_level: int  # 1 (fast) to 9 (small)
    body_bytes_max: int  # the producer refuses larger bodies
    linger_ms: float | None  # how long a message waits for others to share its request; None: it is sent at once
    batch_bytes_max: int  # of one such request, roughly
    batch_messages_max: int  # of one such request
    stamp: bool  # add the producer's id and a sequence number per queue to each message, for loss detection
    interceptors: Sequence[ProducerInterceptor]  # called around every send, in this order
    trace: bool | str  # write RocketMQ's message trace to RMQ_SYS_TRACE_TOPIC, or to the topic of this name
    tracing: Tracing | None  # OpenTelemetry spans

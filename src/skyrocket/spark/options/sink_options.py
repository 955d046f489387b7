"""The options of the sink `rocketmq`, for batches and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skyrocket.client.errors import ConfigurationError, InvalidMessageError
from skyrocket.client.producer.compression import OVER_BYTES_DEFAULT, Compression
from skyrocket.client.session.names import check_group, check_topic
from skyrocket.client.session.namespaces import with_namespace
from skyrocket.protocol.limits import BODY_BYTES_MAX
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.cluster_options import CLUSTER_OPTIONS, ClusterOptions, cluster_options
from skyrocket.spark.options.table import Option, OptionTable, choice, duration_ms, whole, word

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
GROUP_DEFAULT: Final = "SKYROCKET_SPARK_SINK"
LEDGER_DEFAULT: Final = "SKYROCKET_SINK_LEDGER"
_BATCH_BYTES_MAX: Final = BODY_BYTES_MAX - 64 * 1024  # a broker limits a whole batch to the size of one message
_NO_COMPRESSION: Final = "none"
_KIB = 1024
_LABEL_CHARACTERS_MAX = 200


def _label(text: str) -> str:
    """Parse a text that becomes a message property."""
    label = text.strip()
    if not label or len(label) > _LABEL_CHARACTERS_MAX or not label.isprintable():
        raise ValueError(f"a text of at most {_LABEL_CHARACTERS_MAX} printable characters")
    return label


SINK: Final = OptionTable(
    "the sink rocketmq",
    (
        Option("topic", word, None, "the topic of all rows; overrides a column `topic`"),
        Option("delivery", choice(AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE, "whether a failure or a replay may repeat a row"),
        Option("group", word, GROUP_DEFAULT, "the producer group; with exactly-once, no other producer may use it"),
        Option("writeId", _label, None, "exactly-once, batch: a second run with the same id writes only the missing rows"),
        Option("batchBytes", whole(1_024, _BATCH_BYTES_MAX), 512 * _KIB, "maximum bytes of messages in one request"),
        Option("batchMessages", whole(1, 65_536), 4_096, "maximum number of messages in one request"),
        Option(
            "compression",
            choice(_NO_COMPRESSION, "zlib", "lz4", "zstd"),
            "zlib",
            "compression of large bodies; each travels in its own request",
        ),
        Option("compressOver", whole(1), OVER_BYTES_DEFAULT, "size in bytes from which a body counts as large"),
        Option(
            "maxBodyBytes",
            whole(1, 15 * _KIB * _KIB),
            BODY_BYTES_MAX,
            "maximum size of a body; set it as the brokers' maxMessageSize",
        ),
        Option("sendTimeout", duration_ms, 10_000, "timeout of one attempt to send; `retryTimeout` limits all attempts together"),
        Option("retries", whole(0, 1_000), 5, "further attempts after one with an unknown outcome"),
        Option("maxInFlight", whole(1, 50_000), 1_000, "maximum unanswered requests of a task, or of the driver's commit"),
        Option("ledgerTopic", word, LEDGER_DEFAULT, "exactly-once: the topic that records which batches were committed"),
        Option(
            "settleTime",
            duration_ms,
            5_000,
            "exactly-once: pause before the sink searches the queues for rows whose request got no answer",
        ),
        Option("checkpointLocation", word, None, "Spark's own option for streams"),
        *CLUSTER_OPTIONS,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The parsed options. Plain values only, since Spark pickles them into tasks."""

    cluster: ClusterOptions
    topic: str | None = None
    exactly_once: bool = False
    group: str = GROUP_DEFAULT
    write_id: str | None = None
    batch_bytes: int = 512 * _KIB
    batch_messages: int = 4_096
    compression: str | None = "zlib"
    compress_over_bytes: int = OVER_BYTES_DEFAULT
    body_bytes_max: int = BODY_BYTES_MAX
    send_ms: int = 10_000
    retries: int = 5
    in_flight_max: int = 1_000
    ledger_topic: str = LEDGER_DEFAULT
    settle_ms: int = 5_000

    def wire(self, name: str) -> str:
        """Return a topic's or group's name with its namespace, as brokers store it."""
        return with_namespace(self.cluster.namespace, name)

    def body_compression(self) -> Compression:
        return Compression(self.compression, self.compress_over_bytes)


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    values = SINK.read(options)
    for name, check in (("topic", check_topic), ("ledgerTopic", check_topic), ("group", check_group)):
        try:
            if values[name] is not None:
                check(values[name])
        except (InvalidMessageError, ConfigurationError) as error:
            raise OptionError(f"Option '{name}' is '{values[name]}': {error}") from error
    exactly_once = values["delivery"] == EXACTLY_ONCE
    if values["writeId"] is not None and not exactly_once:
        raise OptionError(f"Option 'writeId' needs delivery={EXACTLY_ONCE}. Set option 'delivery', or leave 'writeId' out.")
    return SinkOptions(
        cluster=cluster_options(values),
        topic=values["topic"],
        exactly_once=exactly_once,
        group=values["group"],
        write_id=values["writeId"],
        batch_bytes=values["batchBytes"],
        batch_messages=values["batchMessages"],
        compression=None if values["compression"] == _NO_COMPRESSION else values["compression"],
        compress_over_bytes=values["compressOver"],
        body_bytes_max=values["maxBodyBytes"],
        send_ms=values["sendTimeout"],
        retries=values["retries"],
        in_flight_max=values["maxInFlight"],
        ledger_topic=values["ledgerTopic"],
        settle_ms=values["settleTime"],
    )

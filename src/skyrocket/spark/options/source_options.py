"""The options of the source `rocketmq`, for batches and streams: one table, parsed into one value.

Names and meanings follow Spark's Kafka connector where it has the option. An option that has an effect only on batches or only
on streams is refused for the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from skyrocket.client.consumer.subscription import Sql, Subscription, make_subscription
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.session.names import check_group, check_topic
from skyrocket.protocol.system_names import is_system_name
from skyrocket.spark.columns import select_columns
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.cluster_options import CLUSTER_OPTIONS, ClusterOptions, cluster_options
from skyrocket.spark.options.offset_spec import (
    EARLIEST,
    LATEST,
    OffsetKind,
    OffsetSpec,
    earliest,
    latest,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from skyrocket.spark.options.table import Option, OptionTable, choice, duration_ms, flag, names, whole, word

Mode = Literal["batch", "stream"]
Assigned = tuple[tuple[str, tuple[str, ...]], ...]

GROUP_PREFIX: Final = "spark-rocketmq-source"
PARQUET_COMPRESSIONS: Final = ("snappy", "lz4", "zstd", "none")
FETCH_MESSAGES: Final = 1_024
FETCH_BYTES: Final = 4 * 1024 * 1024


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def _folder(text: str) -> str:
    """Parse an absolute path, or a URI of the scheme file."""
    parts = urlsplit(text.strip())
    path = unquote(parts.path) if parts.scheme == "file" else text.strip()
    if parts.scheme not in ("", "file") or parts.netloc or not path.startswith("/"):
        raise ValueError("an absolute path that every task can write to, such as /mnt/shared/orders")
    return path


SOURCE: Final = OptionTable(
    "the source rocketmq",
    (
        Option("subscribe", names, None, "topics to read, separated by commas"),
        Option("subscribePattern", _pattern, None, "a regular expression that matches the whole names of the topics to read"),
        Option(
            "assign",
            parse_assignment,
            None,
            'queues to read: {"orders":["broker-a:0","broker-a:1"]}, or {"orders":[0]} for queue 0 at every broker',
        ),
        Option(
            "startingOffsets", parse_offsets, None, "earliest, latest or JSON. Default: earliest in a batch, latest in a stream"
        ),
        Option("endingOffsets", parse_offsets, LATEST, "latest or JSON", "batch"),
        Option("startingTimestamp", whole(0), None, "ms: start at the first message stored at this time or later"),
        Option("endingTimestamp", whole(0), None, "ms: stop before the first message stored at this time or later", "batch"),
        Option("startingOffsetsByTimestamp", parse_timestamps, None, "JSON with a starting timestamp in ms for each queue"),
        Option("endingOffsetsByTimestamp", parse_timestamps, None, "JSON with an ending timestamp in ms for each queue", "batch"),
        Option(
            "startingOffsetsByTimestampStrategy",
            choice("error", "latest"),
            "error",
            "what to do if a queue has no message at the starting timestamp or later",
        ),
        Option(
            "maxOffsetsPerTrigger", whole(1), None, "maximum offsets of a micro-batch, divided among queues by backlog", "stream"
        ),
        Option("minOffsetsPerTrigger", whole(1), None, "offsets to wait for before a micro-batch starts", "stream"),
        Option("maxTriggerDelay", duration_ms, 15 * 60_000, "the longest wait for minOffsetsPerTrigger", "stream"),
        Option("minPartitions", whole(1), None, "divide queues so that the job has at least this many tasks"),
        Option("maxRecordsPerPartition", whole(1), None, "divide queues so that a task reads at most this many messages"),
        Option("failOnDataLoss", flag, True, "fail if messages to be read no longer exist; with false, skip them"),
        Option("groupIdPrefix", word, GROUP_PREFIX, "prefix of the consumer group's name; a hash of the selection follows it"),
        Option("groupId", word, None, "the whole name of the consumer group, for access control by group"),
        Option("commitGroup", word, None, "a consumer group whose offsets follow the finished batches", "stream"),
        Option("includeProperties", flag, False, "also decode column properties"),
        Option("columns", names, None, "the columns to decode. Default: all but properties"),
        Option("tags", word, None, "tags to read, filtered by the broker: a || b"),
        Option("sql", word, None, "an SQL92 expression over properties, evaluated by a broker that allows it"),
        Option("fetchMessages", whole(1, 65_536), FETCH_MESSAGES, "messages to request per pull; Apache's brokers return 32"),
        Option(
            "fetchBytes", whole(1, 64 * 1024 * 1024), FETCH_BYTES, "bytes to request per pull; Apache's brokers return 256 KiB"
        ),
        Option(
            "parquetPath",
            _folder,
            None,
            "a folder: each task writes its messages to a Parquet file there, and returns its name",
            "batch",
        ),
        Option("parquetCompression", choice(*PARQUET_COMPRESSIONS), "snappy", "of these files", "batch"),
        Option("fetchTimeout", duration_ms, 10_000, "timeout of one pull; a task retries it until retryTimeout"),
        Option("fetchAhead", whole(1, 64), 8, "pulls in flight at once, for a query without a filter"),
        *CLUSTER_OPTIONS,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options. Plain values only, since Spark pickles them into tasks."""

    cluster: ClusterOptions
    columns: tuple[str, ...]
    topics: tuple[str, ...] = ()  # exactly one of topics, pattern and assigned is set
    pattern: str | None = None
    assigned: Assigned = ()
    starting: OffsetSpec
    ending: OffsetSpec
    when_too_late: str = "error"  # startingOffsetsByTimestampStrategy
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records: int | None = None  # of a partition
    fail_on_data_loss: bool = True
    group: str = GROUP_PREFIX
    commit_group: str | None = None
    tags: str | None = None
    sql: str | None = None
    fetch_messages: int = FETCH_MESSAGES
    fetch_bytes: int = FETCH_BYTES
    fetch_ms: int = 10_000
    fetch_ahead: int = 8
    parquet_path: str | None = None
    parquet_compression: str = "snappy"

    @property
    def is_filtered(self) -> bool:
        """Return whether the broker filters messages. If so, only its responses say where the next pull starts."""
        return self.sql is not None or (self.tags is not None and self.subscription("").tags is not None)

    def subscription(self, topic: str) -> Subscription:
        return make_subscription(topic, Sql(self.sql) if self.sql is not None else self.tags or "", 0)

    @property
    def selected_by(self) -> str:
        """Return the name of the option that selects topics or queues."""
        return "subscribePattern" if self.pattern is not None else "assign" if self.assigned else "subscribe"


def source_options(options: Mapping[str, str], mode: Mode | None = None) -> SourceOptions:
    """Parse the options. Raise OptionError with a message that names the wrong option.

    Without a `mode`, as for the schema, options of batches and streams are both accepted.
    """
    values = SOURCE.read(options)
    _check_mode(options, values, mode)
    _check_selection(values)
    if values["tags"] is not None and values["sql"] is not None:
        raise OptionError("Options 'tags' and 'sql' are both given, but a query has one filter. Leave one of them out.")
    _check_triggers(values)
    cluster = cluster_options(values)
    found = SourceOptions(
        cluster=cluster,
        columns=select_columns(values["columns"], include_properties=values["includeProperties"]),
        topics=values["subscribe"] or (),
        pattern=values["subscribePattern"],
        assigned=values["assign"] or (),
        starting=_starting(values, mode),
        ending=_ending(values),
        when_too_late=values["startingOffsetsByTimestampStrategy"],
        max_offsets=values["maxOffsetsPerTrigger"],
        min_offsets=values["minOffsetsPerTrigger"],
        max_trigger_delay_ms=values["maxTriggerDelay"],
        min_partitions=values["minPartitions"],
        max_records=values["maxRecordsPerPartition"],
        fail_on_data_loss=values["failOnDataLoss"],
        group=_group(values),
        commit_group=_check_group("commitGroup", values["commitGroup"]),
        tags=values["tags"],
        sql=values["sql"],
        fetch_messages=values["fetchMessages"],
        fetch_bytes=values["fetchBytes"],
        fetch_ms=values["fetchTimeout"],
        fetch_ahead=values["fetchAhead"],
        parquet_path=values["parquetPath"],
        parquet_compression=values["parquetCompression"],
    )
    try:
        found.subscription("")
    except ConfigurationError as error:
        raise OptionError(f"Option 'tags': {error}") from error
    return found


def _check_mode(options: Mapping[str, str], values: Mapping[str, Any], mode: Mode | None) -> None:
    if mode is None:
        return
    given = {name.lower() for name in options}
    other = {"batch": "stream", "stream": "batch"}[mode]
    for row in SOURCE:
        if row.only == other and row.name.lower() in given:
            raise OptionError(f"Option '{row.name}' has no effect on a {mode}: it is for a {other} only. Leave it out.")
    if mode == "batch":
        _check_no_latest(values["startingOffsets"])


def _check_no_latest(starting: Any) -> None:
    if starting == LATEST:
        raise OptionError("Option 'startingOffsets' cannot be latest in a batch: the batch would read nothing.")
    for topic, queues in starting if isinstance(starting, tuple) else ():
        for key, offset in queues:
            if offset == LATEST:
                raise OptionError(f"Option 'startingOffsets' cannot be latest ({LATEST}) for {topic} {key} in a batch.")


def _check_selection(values: Mapping[str, Any]) -> None:
    ways = ("subscribe", "subscribePattern", "assign")
    given = [way for way in ways if values[way] is not None]
    if not given:
        raise OptionError("No topic is selected. Give one of the options 'subscribe', 'subscribePattern' and 'assign'.")
    if len(given) > 1:
        raise OptionError(f"Options '{given[0]}' and '{given[1]}' both select what to read. Leave one of them out.")
    topics = values["subscribe"] or tuple(topic for topic, _ in values["assign"] or ())
    for topic in topics:
        try:
            if not is_system_name(topic):  # clients cannot send to system topics, but may read them
                check_topic(topic)
        except ValueError as error:
            raise OptionError(f"Option '{given[0]}' names topic '{topic}', which cannot exist: {error}") from error


def _check_triggers(values: Mapping[str, Any]) -> None:
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"Option 'minOffsetsPerTrigger' is {least}, which is more than option 'maxOffsetsPerTrigger', which is {most}."
        )


def _starting(values: Mapping[str, Any], mode: Mode | None) -> OffsetSpec:
    """Return where to start. As in Kafka's connector, a timestamp overrides timestamps by queue, and those override offsets."""
    if values["startingTimestamp"] is not None:
        return OffsetSpec("startingTimestamp", OffsetKind.TIMESTAMP, values["startingTimestamp"])
    if values["startingOffsetsByTimestamp"] is not None:
        return OffsetSpec("startingOffsetsByTimestamp", OffsetKind.TIMESTAMP, values["startingOffsetsByTimestamp"])
    if values["startingOffsets"] is not None:
        return OffsetSpec("startingOffsets", OffsetKind.OFFSET, values["startingOffsets"])
    return latest("startingOffsets") if mode == "stream" else earliest("startingOffsets")


def _ending(values: Mapping[str, Any]) -> OffsetSpec:
    if values["endingTimestamp"] is not None:
        return OffsetSpec("endingTimestamp", OffsetKind.TIMESTAMP, values["endingTimestamp"])
    if values["endingOffsetsByTimestamp"] is not None:
        return OffsetSpec("endingOffsetsByTimestamp", OffsetKind.TIMESTAMP, values["endingOffsetsByTimestamp"])
    ending = values["endingOffsets"]
    if ending == EARLIEST:
        raise OptionError("Option 'endingOffsets' cannot be earliest: the batch would read nothing.")
    for topic, queues in ending if isinstance(ending, tuple) else ():
        for key, offset in queues:
            if offset == EARLIEST:
                raise OptionError(f"Option 'endingOffsets' cannot be earliest ({EARLIEST}) for {topic} {key}.")
    return OffsetSpec("endingOffsets", OffsetKind.OFFSET, ending)


def _group(values: Mapping[str, Any]) -> str:
    """Return the consumer group that pulls name. The group joins no rebalance and commits no offsets.

    A broker keeps every group's name for ever, so the name is a hash of what the query reads: each run of a query uses the same
    name, and different queries have different names in the broker's statistics.
    """
    if values["groupId"] is not None:
        return _check_group("groupId", values["groupId"]) or ""
    read = repr([values[name] for name in ("namespace", "subscribe", "subscribePattern", "assign", "tags", "sql")])
    return _check_group("groupIdPrefix", f"{values['groupIdPrefix']}-{sha256(read.encode()).hexdigest()[:12]}") or ""


def _check_group(option: str, group: str | None) -> str | None:
    if group is None:
        return None
    try:
        check_group(group)
    except ValueError as error:
        raise OptionError(f"Option '{option}' gives the group name '{group}', which is not valid: {error}") from error
    return group

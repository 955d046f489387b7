"""What a user can say to the source `rocketmq`, for a batch and for a stream, in one table; and what it comes to, as one value.

Names and meanings are those of Spark's Kafka connector where it has them. A row says whether it is for batches or streams
only; it is refused where it would do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

from skyrocket.client.consumer.subscription import Sql, Subscription, make_subscription
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.session.names import check_group, check_topic
from skyrocket.protocol.system_names import is_system_name
from skyrocket.spark.columns import chosen_columns
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.cluster_options import CLUSTER_OPTIONS, ClusterOptions, cluster_options
from skyrocket.spark.options.offset_spec import EARLIEST, LATEST, Kind, OffsetSpec, assigned, earliest, latest, moments, offsets
from skyrocket.spark.options.table import Option, OptionTable, choice, duration_ms, flag, names, whole, word

Mode = Literal["batch", "stream"]
Assigned = tuple[tuple[str, tuple[str, ...]], ...]

GROUP_PREFIX: Final = "spark-rocketmq-source"
FETCH_MESSAGES: Final = 1_024
FETCH_BYTES: Final = 4 * 1024 * 1024


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


SOURCE: Final = OptionTable(
    "the source rocketmq",
    (
        Option("subscribe", names, None, "topics to read, with commas between"),
        Option("subscribePattern", _pattern, None, "a regular expression for the whole name of the topics to read"),
        Option(
            "assign", assigned, None, 'queues to read: {"orders":["broker-a:0","broker-a:1"]}, or {"orders":[0]} at every broker'
        ),
        Option(
            "startingOffsets", offsets, None, "earliest, latest or JSON; if not given, earliest in a batch, latest in a stream"
        ),
        Option("endingOffsets", offsets, LATEST, "latest or JSON", "batch"),
        Option(
            "startingTimestamp", whole(0), None, "ms: begin with the first message stored then or later; before startingOffsets"
        ),
        Option("endingTimestamp", whole(0), None, "ms: end before the first message stored then or later", "batch"),
        Option("startingOffsetsByTimestamp", moments, None, "the same as JSON, with ms for each queue"),
        Option("endingOffsetsByTimestamp", moments, None, "the same as JSON, with ms for each queue", "batch"),
        Option(
            "startingOffsetsByTimestampStrategy",
            choice("error", "latest"),
            "error",
            "where no message is as late",
        ),
        Option("maxOffsetsPerTrigger", whole(1), None, "messages of one micro-batch, divided among the queues by size", "stream"),
        Option("minOffsetsPerTrigger", whole(1), None, "messages to wait for before a micro-batch", "stream"),
        Option("maxTriggerDelay", duration_ms, 15 * 60_000, "and how long at most", "stream"),
        Option("minPartitions", whole(1), None, "divide queues so that there are at least so many tasks"),
        Option("maxRecordsPerPartition", whole(1), None, "divide queues so that a task reads at most so many messages"),
        Option("failOnDataLoss", flag, True, "stop when messages to be read are gone; otherwise go on with those that are there"),
        Option("groupIdPrefix", word, GROUP_PREFIX, "the consumer group's name begins with this; a hash of what is read follows"),
        Option("groupId", word, None, "the consumer group's whole name, where access control names groups"),
        Option("commitGroup", word, None, "a consumer group whose offsets follow the batches that are done", "stream"),
        Option("includeProperties", flag, False, "with the column properties"),
        Option("columns", names, None, "the columns to decode; otherwise all but properties"),
        Option("tags", word, None, "tags to read, chosen by the broker: a || b"),
        Option("sql", word, None, "an SQL92 expression over properties, for a broker that allows it"),
        Option(
            "fetchMessages", whole(1, 65_536), FETCH_MESSAGES, "messages asked for at once; brokers give 32 unless set otherwise"
        ),
        Option("fetchBytes", whole(1, 64 * 1024 * 1024), FETCH_BYTES, "and bytes; brokers give 256 KiB unless set otherwise"),
        Option("fetchTimeout", duration_ms, 10_000, "for the answer to one pull; it is asked again until retryTimeout"),
        Option("fetchAhead", whole(1, 64), 8, "pulls on their way at once, where nothing is filtered"),
        *CLUSTER_OPTIONS,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Plain values only: it is pickled into tasks."""

    cluster: ClusterOptions
    columns: tuple[str, ...]
    topics: tuple[str, ...] = ()  # one of these three
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

    @property
    def is_filtered(self) -> bool:
        """Whether the broker passes over messages, so that where to go on is known from its answers only."""
        return self.sql is not None or (self.tags is not None and self.subscription("").tags is not None)

    def subscription(self, topic: str) -> Subscription:
        return make_subscription(topic, Sql(self.sql) if self.sql is not None else self.tags or "", 0)

    @property
    def selected_by(self) -> str:
        """The option that says what is read."""
        return "subscribePattern" if self.pattern is not None else "assign" if self.assigned else "subscribe"


def source_options(options: Mapping[str, str], mode: Mode | None = None) -> SourceOptions:
    """OptionError, in one sentence that names the option, for what cannot be meant. Without a mode, as for the schema, options of
    either are taken."""
    values = SOURCE.read(options)
    _check_mode(options, values, mode)
    _check_selection(values)
    if values["tags"] is not None and values["sql"] is not None:
        raise OptionError("Options 'tags' and 'sql' are two ways to filter; give one of them.")
    _check_triggers(values)
    cluster = cluster_options(values)
    found = SourceOptions(
        cluster=cluster,
        columns=chosen_columns(values["columns"], include_properties=values["includeProperties"]),
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
        commit_group=_checked_group("commitGroup", values["commitGroup"]),
        tags=values["tags"],
        sql=values["sql"],
        fetch_messages=values["fetchMessages"],
        fetch_bytes=values["fetchBytes"],
        fetch_ms=values["fetchTimeout"],
        fetch_ahead=values["fetchAhead"],
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
            raise OptionError(f"Option '{row.name}' says nothing to a {mode}: it is for a {other} only.")
    if mode == "batch":
        _check_no_latest(values["startingOffsets"])


def _check_no_latest(starting: Any) -> None:
    if starting == LATEST:
        raise OptionError("Option 'startingOffsets' cannot be latest in a batch, which would read nothing.")
    for topic, queues in starting if isinstance(starting, tuple) else ():
        for key, offset in queues:
            if offset == LATEST:
                raise OptionError(f"Option 'startingOffsets' cannot be latest ({LATEST}) for {topic} {key} in a batch.")


def _check_selection(values: Mapping[str, Any]) -> None:
    ways = ("subscribe", "subscribePattern", "assign")
    given = [way for way in ways if values[way] is not None]
    if not given:
        raise OptionError("One of the options 'subscribe', 'subscribePattern' and 'assign' has to say what to read.")
    if len(given) > 1:
        raise OptionError(f"Options '{given[0]}' and '{given[1]}' both say what to read; give one of them.")
    topics = values["subscribe"] or tuple(topic for topic, _ in values["assign"] or ())
    for topic in topics:
        try:
            if not is_system_name(topic):  # nobody sends to those, but one may look
                check_topic(topic)
        except ValueError as error:
            raise OptionError(f"Option '{given[0]}': nobody can read topic '{topic}': {error}") from error


def _check_triggers(values: Mapping[str, Any]) -> None:
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(f"Option 'minOffsetsPerTrigger' is {least}, more than the {most} of 'maxOffsetsPerTrigger'.")


def _starting(values: Mapping[str, Any], mode: Mode | None) -> OffsetSpec:
    """As in Kafka's connector, one moment goes before moments, and moments before offsets."""
    if values["startingTimestamp"] is not None:
        return OffsetSpec("startingTimestamp", Kind.MOMENT, values["startingTimestamp"])
    if values["startingOffsetsByTimestamp"] is not None:
        return OffsetSpec("startingOffsetsByTimestamp", Kind.MOMENT, values["startingOffsetsByTimestamp"])
    if values["startingOffsets"] is not None:
        return OffsetSpec("startingOffsets", Kind.OFFSET, values["startingOffsets"])
    return latest("startingOffsets") if mode == "stream" else earliest("startingOffsets")


def _ending(values: Mapping[str, Any]) -> OffsetSpec:
    if values["endingTimestamp"] is not None:
        return OffsetSpec("endingTimestamp", Kind.MOMENT, values["endingTimestamp"])
    if values["endingOffsetsByTimestamp"] is not None:
        return OffsetSpec("endingOffsetsByTimestamp", Kind.MOMENT, values["endingOffsetsByTimestamp"])
    ending = values["endingOffsets"]
    if ending == EARLIEST:
        raise OptionError("Option 'endingOffsets' cannot be earliest, where there is nothing to read before.")
    for topic, queues in ending if isinstance(ending, tuple) else ():
        for key, offset in queues:
            if offset == EARLIEST:
                raise OptionError(f"Option 'endingOffsets' cannot be earliest ({EARLIEST}) for {topic} {key}.")
    return OffsetSpec("endingOffsets", Kind.OFFSET, ending)


def _group(values: Mapping[str, Any]) -> str:
    """Pulls name a group, which joins nothing and commits nothing. A broker remembers each group's name for ever, so it is made
    of what is read: the same query has the same name each time it is run, and different ones can be told apart in statistics."""
    if values["groupId"] is not None:
        return _checked_group("groupId", values["groupId"]) or ""
    read = repr([values[name] for name in ("namespace", "subscribe", "subscribePattern", "assign", "tags", "sql")])
    return _checked_group("groupIdPrefix", f"{values['groupIdPrefix']}-{sha256(read.encode()).hexdigest()[:12]}") or ""


def _checked_group(option: str, group: str | None) -> str | None:
    if group is None:
        return None
    try:
        check_group(group)
    except ValueError as error:
        raise OptionError(f"Option '{option}': '{group}' cannot be a group's name: {error}") from error
    return group

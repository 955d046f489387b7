"""Turns options into queues and offsets by asking the cluster. A value that does not fit the cluster is an error.

queues = select_queues(options, cluster)                        the queues to read
starts = resolve_starting_offsets(options, cluster, queues)
stops = resolve_ending_offsets(options, cluster, queues)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster_client import ClusterClient, Offsets
from skyrocket.spark.errors import DataLossError, OffsetsError, OptionError, RequestRefusedError
from skyrocket.spark.options.offset_json import queue_key
from skyrocket.spark.options.offset_spec import (
    EARLIEST,
    LATEST,
    OffsetKind,
    OffsetSpec,
    OffsetTarget,
    is_named,
    offset_targets,
    unknown_keys,
)
from skyrocket.spark.options.source_options import SourceOptions


def select_queues(options: SourceOptions, cluster: ClusterClient, *, may_be_none: bool = False) -> tuple[Queue, ...]:
    """Return the queues that the options select, sorted. Raise OptionError for a topic or queue that does not exist.

    With `may_be_none`, a pattern may match no topic.
    """
    if options.pattern is not None:
        matching = matching_topics(options.pattern, cluster.topics())
        if not matching and not may_be_none:
            raise OptionError(f"Option 'subscribePattern' is '{options.pattern}', which matches no topic.")
        return tuple(sorted(queue for queues in cluster.queues(matching).values() for queue in queues))
    keys = dict(options.assigned)
    found: list[Queue] = []
    for topic, queues in cluster.queues(options.topics or keys).items():
        if not queues:
            at = "nameserver" if options.cluster.nameservers else "the nameservers of"
            raise OptionError(
                f"Option '{options.selected_by}' names topic '{topic}', which does not exist at {at} {options.cluster.where}. "
                f"Create it with: skyrocket topic create {topic}"
            )
        if topic in keys:
            _check_assigned(topic, keys[topic], queues)
        found += [queue for queue in queues if topic not in keys or is_named(queue, keys[topic])]
    return tuple(sorted(found))


def _check_assigned(topic: str, keys: Sequence[str], queues: Sequence[Queue]) -> None:
    unknown = unknown_keys(keys, queues)
    if unknown:
        existing = ", ".join(map(queue_key, queues))
        raise OptionError(f"Option 'assign' names queue {unknown[0]} of topic '{topic}', whose queues are: {existing}.")


def matching_topics(pattern: str, topics: Sequence[str]) -> list[str]:
    compiled = re.compile(pattern)
    return [topic for topic in topics if compiled.fullmatch(topic)]


def check_filter(options: SourceOptions, cluster: ClusterClient, queues: Sequence[Queue]) -> None:
    """Raise OptionError if a broker refuses the expression of option `sql`."""
    if options.sql is None:
        return
    try:
        cluster.check_subscription(options.group, options.subscription(""), queues)
    except RequestRefusedError as error:
        raise OptionError(f"Option 'sql' is '{options.sql}', which a broker refuses: {error}") from error


# --- offsets


def resolve_starting_offsets(options: SourceOptions, cluster: ClusterClient, queues: Sequence[Queue]) -> Offsets:
    """Return the offset at which to start in each queue.

    A timestamp later than every message is an error, unless option `startingOffsetsByTimestampStrategy` is latest.
    """
    spec = options.starting
    targets = offset_targets(spec, queues)
    found = _resolve(spec, targets, cluster, end_when_too_late=options.when_too_late == "latest")
    return _check_existing(spec, targets, found, cluster, fail_on_data_loss=options.fail_on_data_loss)


def resolve_ending_offsets(options: SourceOptions, cluster: ClusterClient, queues: Sequence[Queue]) -> Offsets:
    """Return one past the last offset to read in each queue."""
    spec = options.ending
    targets = offset_targets(spec, queues)
    found = _resolve(spec, targets, cluster, end_when_too_late=True)
    return _check_existing(spec, targets, found, cluster, fail_on_data_loss=options.fail_on_data_loss)


def _resolve(
    spec: OffsetSpec, targets: Mapping[Queue, OffsetTarget], cluster: ClusterClient, *, end_when_too_late: bool
) -> Offsets:
    """Replace earliest, latest and timestamps by offsets."""
    timestamps = {queue: target.value for queue, target in targets.items() if target.kind is OffsetKind.TIMESTAMP}
    earliest = [queue for queue, target in targets.items() if target == (OffsetKind.OFFSET, EARLIEST)]
    latest = [queue for queue, target in targets.items() if target == (OffsetKind.OFFSET, LATEST)]
    found = {queue: target.value for queue, target in targets.items() if target.kind is OffsetKind.OFFSET}
    found |= cluster.first_offsets(earliest) | cluster.last_offsets(latest)
    if timestamps:
        last = cluster.last_offsets(timestamps)  # before the search, so that messages stored meanwhile do not move the end
        for queue, offset in cluster.offsets_at(timestamps).items():
            if offset >= last[queue] and not end_when_too_late:
                raise OffsetsError(
                    f"Option '{spec.option}': {queue} has no message stored at {timestamps[queue]} ms or later. To start at its "
                    "end, set option 'startingOffsetsByTimestampStrategy' to latest."
                )
            found[queue] = min(offset, last[queue])
    return found


def _check_existing(
    spec: OffsetSpec,
    targets: Mapping[Queue, OffsetTarget],
    offsets: Offsets,
    cluster: ClusterClient,
    *,
    fail_on_data_loss: bool,
) -> Offsets:
    """Compare the offsets that the user wrote with those that exist.

    An offset outside the queue is an error. With `failOnDataLoss` false, the nearest existing offset replaces it.
    """
    written = [queue for queue, target in targets.items() if target.kind is OffsetKind.OFFSET and target.value >= 0]
    first, last = cluster.first_offsets(written), cluster.last_offsets(written)
    found = dict(offsets)
    for queue in written:
        offset = offsets[queue]
        if first[queue] <= offset <= last[queue]:
            continue
        if fail_on_data_loss:
            sentence = f"Option '{spec.option}' is {offset} for {queue}, which has offsets {first[queue]} to {last[queue]}"
            if offset < first[queue]:
                raise DataLossError(
                    f"{sentence}: older messages no longer exist. To skip them, set option 'failOnDataLoss' to false."
                )
            raise OffsetsError(f"{sentence}.")
        found[queue] = min(max(offset, first[queue]), last[queue])
    return found


def check_order(options: SourceOptions, starts: Offsets, stops: Offsets) -> None:
    """Raise OffsetsError if a queue's end is before its start and the user wrote both offsets."""
    for queue, stop in stops.items():
        if stop < starts[queue] and not (options.ending.is_for_all or options.starting.is_for_all):
            raise OffsetsError(
                f"Option '{options.ending.option}' is {stop} for {queue}, which is before offset {starts[queue]} of "
                f"option '{options.starting.option}'."
            )

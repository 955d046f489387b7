"""From options to queues and offsets: the cluster is asked, and what cannot be is told in one sentence.

queues = selected_queues(options, cluster)          the queues that are read
starts = starting_offsets(options, cluster, queues)
stops = ending_offsets(options, cluster, queues)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster import Cluster, Offsets
from skyrocket.spark.errors import DataLossError, OffsetsError, OptionError, RefusedError
from skyrocket.spark.options.offset_json import queue_key
from skyrocket.spark.options.offset_spec import EARLIEST, LATEST, Kind, OffsetSpec, Wish, named, unknown_keys, wishes
from skyrocket.spark.options.source_options import SourceOptions


def selected_queues(options: SourceOptions, cluster: Cluster, *, may_be_none: bool = False) -> tuple[Queue, ...]:
    """In order. OptionError for a topic, or a queue of one, that is not there; with `may_be_none` a pattern may match nothing."""
    if options.pattern is not None:
        matching = matching_topics(options.pattern, cluster.topics())
        if not matching and not may_be_none:
            raise OptionError(f"Option 'subscribePattern': no topic's name matches '{options.pattern}'.")
        return tuple(sorted(queue for queues in cluster.queues(matching).values() for queue in queues))
    keys = dict(options.assigned)
    found: list[Queue] = []
    for topic, queues in cluster.queues(options.topics or keys).items():
        if not queues:
            where = "; ".join(options.cluster.nameservers)
            raise OptionError(
                f"Option '{options.selected_by}' names topic '{topic}', which the nameserver {where} does not know."
            )
        if topic in keys:
            _check_assigned(topic, keys[topic], queues)
        found += [queue for queue in queues if topic not in keys or named(queue, keys[topic])]
    return tuple(sorted(found))


def _check_assigned(topic: str, keys: Sequence[str], queues: Sequence[Queue]) -> None:
    unknown = unknown_keys(keys, queues)
    if unknown:
        there = ", ".join(map(queue_key, queues))
        raise OptionError(f"Option 'assign' names queue {unknown[0]} of topic '{topic}', which has: {there}.")


def matching_topics(pattern: str, topics: Sequence[str]) -> list[str]:
    compiled = re.compile(pattern)
    return [topic for topic in topics if compiled.fullmatch(topic)]


def check_filter(options: SourceOptions, cluster: Cluster, queues: Sequence[Queue]) -> None:
    """OptionError where a broker does not take the expression of option 'sql'."""
    if options.sql is None:
        return
    try:
        cluster.check(options.group, options.subscription(""), queues)
    except RefusedError as error:
        raise OptionError(f"Option 'sql' is '{options.sql}', and a broker does not take it: {error}") from error


# --- offsets


def starting_offsets(options: SourceOptions, cluster: Cluster, queues: Sequence[Queue]) -> Offsets:
    """Of each queue. A moment that no message is as late as is an error, unless startingOffsetsByTimestampStrategy is latest."""
    spec = options.starting
    wished = wishes(spec, queues)
    found = resolved(spec, wished, cluster, end_when_too_late=options.when_too_late == "latest")
    return within(spec, wished, found, cluster, fail_on_data_loss=options.fail_on_data_loss)


def ending_offsets(options: SourceOptions, cluster: Cluster, queues: Sequence[Queue]) -> Offsets:
    """One past the last message to be read of each queue."""
    spec = options.ending
    wished = wishes(spec, queues)
    found = resolved(spec, wished, cluster, end_when_too_late=True)
    return within(spec, wished, found, cluster, fail_on_data_loss=options.fail_on_data_loss)


def resolved(spec: OffsetSpec, wished: Mapping[Queue, Wish], cluster: Cluster, *, end_when_too_late: bool) -> Offsets:
    """Offsets in the place of earliest, latest and moments."""
    moments = {queue: wish.value for queue, wish in wished.items() if wish.kind is Kind.MOMENT}
    earliest = [queue for queue, wish in wished.items() if wish == (Kind.OFFSET, EARLIEST)]
    latest = [queue for queue, wish in wished.items() if wish == (Kind.OFFSET, LATEST)]
    found = {queue: wish.value for queue, wish in wished.items() if wish.kind is Kind.OFFSET}
    found |= cluster.first(earliest) | cluster.last(latest)
    if moments:
        last = cluster.last(moments)  # before the search: what is stored between the two is as late as it can be
        for queue, offset in cluster.at(moments).items():
            if offset >= last[queue] and not end_when_too_late:
                raise OffsetsError(
                    f"Option '{spec.option}': {queue} has no message that was stored at {moments[queue]} ms or later; with "
                    "option 'startingOffsetsByTimestampStrategy' as latest, reading begins at its end."
                )
            found[queue] = min(offset, last[queue])
    return found


def within(
    spec: OffsetSpec, wished: Mapping[Queue, Wish], offsets: Offsets, cluster: Cluster, *, fail_on_data_loss: bool
) -> Offsets:
    """Offsets that the user wrote, held against what is there. What is gone is an error, or passed over: failOnDataLoss."""
    written = [queue for queue, wish in wished.items() if wish.kind is Kind.OFFSET and wish.value >= 0]
    first, last = cluster.first(written), cluster.last(written)
    found = dict(offsets)
    for queue in written:
        offset = offsets[queue]
        if first[queue] <= offset <= last[queue]:
            continue
        if fail_on_data_loss:
            sentence = f"Option '{spec.option}' is {offset} for {queue}, which has offsets {first[queue]} to {last[queue]}"
            if offset < first[queue]:
                raise DataLossError(f"{sentence}: what came before is gone, and option 'failOnDataLoss' is true.")
            raise OffsetsError(f"{sentence}.")
        found[queue] = min(max(offset, first[queue]), last[queue])
    return found


def check_order(options: SourceOptions, starts: Offsets, stops: Offsets) -> None:
    """OffsetsError where reading would end before it begins: only where the user wrote both."""
    for queue, stop in stops.items():
        if stop < starts[queue] and not (options.ending.is_for_all or options.starting.is_for_all):
            raise OffsetsError(
                f"Option '{options.ending.option}' is {stop} for {queue}, before the {starts[queue]} of "
                f"option '{options.starting.option}'."
            )

"""Decides which queue of the target gets the messages of a queue of the source. Pure.

All messages of a queue go to one queue, so their order stays. A queue with the same broker and number gets them if the target has
one: a topic that is replayed into its own shape keeps its queues. Otherwise the queues of the source are dealt out in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skyrocket.client.queues import Queue
from skyrocket.pipelines.errors import ReplayError


def target_topics(sources: Iterable[Queue], topic: str | None) -> dict[str, str]:
    """Return the target topic of each topic of the source: `topic` for all, or each its own name."""
    return {queue.topic: topic or queue.topic for queue in sources}


def map_queues(sources: Iterable[Queue], targets: Mapping[str, Sequence[Queue]], topic: str | None) -> dict[Queue, Queue]:
    """Return the target queue of each source queue. `targets` are the writable queues of each target topic."""
    found: dict[Queue, Queue] = {}
    dealt: dict[str, int] = {}
    for source in sorted(sources):
        name = topic or source.topic
        queues = sorted(targets.get(name, ()))
        if not queues:
            raise ReplayError(f"Topic '{name}' has no queue that takes messages.")
        same = Queue(name, source.broker_name, source.queue_id)
        by_number = [queue for queue in queues if queue.queue_id == source.queue_id]
        if same in queues:
            found[source] = same
        elif len({queue.broker_name for queue in queues}) == 1 and by_number:
            found[source] = by_number[0]  # another broker, such as that of a new cluster
        else:
            found[source] = queues[dealt.get(name, 0) % len(queues)]
            dealt[name] = dealt.get(name, 0) + 1
    return found


def divide_queues(counts: Mapping[Queue, int], tasks: int) -> list[list[Queue]]:
    """Divide queues among at most `tasks` tasks, so that their messages are about equal: the largest queue first."""
    parts: list[list[Queue]] = [[] for _ in range(max(1, min(tasks, len(counts))))]
    loads = [0] * len(parts)
    for queue in sorted(counts, key=lambda queue: (-counts[queue], queue)):
        lightest = loads.index(min(loads))
        parts[lightest].append(queue)
        loads[lightest] += counts[queue]
    return parts


def share_rate(rate: float, parts: Sequence[Sequence[Queue]], remaining: Mapping[Queue, int]) -> dict[Queue, float]:
    """Return for each queue the messages a second of the task that sends it. Together the tasks send `rate`.

    A task's share is that of its remaining messages, so all tasks end at the same time, and none leaves its share unused.
    """
    loads = [max(1, sum(remaining[queue] for queue in part)) for part in parts]
    return {queue: rate * load / sum(loads) for part, load in zip(parts, loads, strict=True) for queue in part}

"""The bounds and periods of consumers, in one place. Defaults equal those of Apache's client unless a comment says otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    """Bounds and periods of a consumer."""

    # Cache of one queue. Pulling stops above these bounds; a pull under way may exceed them by one response.
    cached_messages_max: int = 1_000
    cached_bytes_max: int = 100 * 1024 * 1024
    # Cache of all queues of one topic (replaces the bound of the queue), and of all queues. None: no such bound.
    topic_messages_max: int | None = None
    topic_bytes_max: int | None = None
    all_messages_max: int | None = None  # `PullConsumer` uses 10,000, as Apache's lite pull consumer does
    all_bytes_max: int | None = None
    span_max: int = 2_000  # offsets from the first unfinished message to the last; not for orderly consumers

    pull_messages: int = 32  # most messages in one pull; with larger bounds than these two, our brokers give up to 1,024
    pull_bytes: int = 256 * 1024  # most bytes in one pull; with larger bounds, our brokers give up to 4 MiB
    pull_hold_ms: int = 15_000  # how long a broker may hold a pull that finds nothing (long polling); `PullConsumer`: 20,000
    pull_answer_ms: int = 30_000  # how long to wait for the response
    pull_expires_ms: int = 120_000  # a queue without a pull for this long is restarted

    after_failure_ms: int = 3_000  # most delay before the next pull after a failed one; the least is a half of it
    when_full_ms: int = 50  # delay before the next pull while the cache is full
    when_broker_busy_ms: int = 20  # delay before the next pull after the broker refused one for flow control
    when_slave_behind_ms: int = 500  # delay before the next pull after a slave did not have the offset; not a figure of Apache's
    when_paused_ms: int = 1_000  # delay before the next pull while the consumer is paused
    when_not_locked_ms: int = 3_000  # delay before the next pull while an orderly queue is not locked
    between_pulls_ms: int = 0  # delay before the next pull after a successful one
    orderly_revoke_ms: int = 500  # how long a rebalance waits for the handler of an orderly queue, each time

    handler_ms: int = 15 * 60_000  # a concurrent handler that takes longer has its message sent back
    send_back_again_ms: int = 5_000  # when a message could not be sent back: delay before it is handled here again
    suspend_ms: int = 1_000  # pause of an orderly queue after its handler failed
    suspend_least_ms: int = 10
    suspend_most_ms: int = 30_000

    lock_expires_ms: int = 30_000  # at this client; brokers keep a lock for 60 s
    lock_renew_ms: int = 20_000
    rebalance_ms: int = 20_000
    rebalance_again_ms: int = 1_000  # after an incomplete rebalance; doubles up to rebalance_ms
    unknown_topic_ms: int = 500  # how often a topic that does not exist is looked for; not a figure of Apache's
    unknown_broker_ms: int = 2_000  # the same, while the client knows no broker; not a figure of Apache's
    tick_ms: int = 1_000  # period of housekeeping: overdue handlers, stalled pulls; not a figure of Apache's
    commit_ms: int = 5_000  # how often offsets are committed to the broker, or written to the file

    def divide(self, queues_of_topic: int, queues: int) -> ConsumerLimits:
        """Return the limits of one queue: the bounds of its topic and of all queues, divided equally among the queues."""

        def smallest(own: int, of_topic: int | None, of_all: int | None) -> int:
            shares = [own if of_topic is None else of_topic // queues_of_topic]
            if of_all is not None:
                shares.append(of_all // queues)
            return max(1, min(shares))

        return replace(
            self,
            cached_messages_max=smallest(self.cached_messages_max, self.topic_messages_max, self.all_messages_max),
            cached_bytes_max=smallest(self.cached_bytes_max, self.topic_bytes_max, self.all_bytes_max),
        )

"""Every bound and period of consumers, in one place. The figures are those of Apache's client unless a line says otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    # What one queue may hold here before it is pulled no further. A pull under way may go over it by one batch.
    cached_messages_max: int = 1_000
    cached_bytes_max: int = 100 * 1024 * 1024
    # The same for the queues of one topic here, in place of the queue's own, and for all queues here; None: no such bound.
    topic_messages_max: int | None = None
    topic_bytes_max: int | None = None
    all_messages_max: int | None = None  # Apache's lite pull consumer has 10,000, and so has `PullConsumer`
    all_bytes_max: int | None = None
    span_max: int = 2_000  # from the first unfinished message to the last; for concurrent handlers, where one may be slow

    pull_messages: int = 32  # asked for at once
    pull_bytes: int = 256 * 1024
    pull_hold_ms: int = 15_000  # how long a broker may hold a pull that finds nothing
    pull_answer_ms: int = 30_000  # how long its answer is waited for
    pull_expires_ms: int = 120_000  # a queue that was not pulled for so long is given up and begun anew

    after_failure_ms: int = 3_000
    when_full_ms: int = 50
    when_broker_busy_ms: int = 20
    when_paused_ms: int = 1_000
    when_not_locked_ms: int = 3_000
    when_orderly_leaves_ms: int = 500  # how long a queue that is to be let go of waits for its handler, each time
    between_pulls_ms: int = 0

    handler_ms: int = 15 * 60_000  # a concurrent handler that takes longer has its message sent back
    send_back_again_ms: int = 5_000  # after a message could not be sent back, it is handled again here
    suspend_ms: int = 1_000  # an orderly queue whose handler failed
    suspend_least_ms: int = 10
    suspend_most_ms: int = 30_000
    orderly_turn_ms: int = 60_000  # how long one orderly queue is handled before others have their turn

    lock_expires_ms: int = 30_000  # here; brokers keep a lock 60 s
    lock_renew_ms: int = 20_000
    rebalance_ms: int = 20_000
    rebalance_again_ms: int = 1_000  # after one that could not be finished
    tick_ms: int = 1_000  # how often what lies about is looked after; not a figure of Apache's
    commit_ms: int = 5_000  # how often offsets go to the broker, or into the file

    def shared_by(self, queues_of_topic: int, queues: int) -> ConsumerLimits:
        """Of one queue, where so many are held here: what a topic and all together may hold is divided equally."""

        def least(own: int, of_topic: int | None, of_all: int | None) -> int:
            shares = [own if of_topic is None else of_topic // queues_of_topic]
            if of_all is not None:
                shares.append(of_all // queues)
            return max(1, min(shares))

        return replace(
            self,
            cached_messages_max=least(self.cached_messages_max, self.topic_messages_max, self.all_messages_max),
            cached_bytes_max=least(self.cached_bytes_max, self.topic_bytes_max, self.all_bytes_max),
        )

"""Slow consumers: groups that read so far behind the end of the log that their reads come from disk. They may be stopped.

    record_lag(group, topic, queue, behind_bytes)     a pull found messages this far before the end of the log
    clear_lag(group, topic, queue)                    a pull reached the end of the queue
    find_slow(limit_bytes)                            the groups that are further behind than the limit

The settings are Apache's: `disableConsumeIfConsumerReadSlowly` (off by default), `consumerFallbehindThreshold` (16 GiB).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from skyrocket.broker.limits import OFFSETS_MAX
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable

log = logging.getLogger(__name__)

CHECK_MS: Final = 180_000  # Apache's interval


class QueueReader(NamedTuple):
    group: str
    topic: str
    queue_id: int


class SlowConsumers:
    def __init__(self) -> None:
        self._behind_bytes: dict[QueueReader, int] = {}

    def record_lag(self, group: str, topic: str, queue_id: int, behind_bytes: int) -> None:
        self.record_lag_of(QueueReader(group, topic, queue_id), behind_bytes)

    def record_lag_of(self, reader: QueueReader, behind_bytes: int) -> None:
        """`record_lag` for a caller that keeps the reader."""
        if reader in self._behind_bytes or len(self._behind_bytes) < OFFSETS_MAX:
            self._behind_bytes[reader] = behind_bytes

    def clear_lag(self, group: str, topic: str, queue_id: int) -> None:
        self._behind_bytes.pop(QueueReader(group, topic, queue_id), None)

    def find_slow(self, limit_bytes: int) -> dict[str, int]:
        """Map each slow group to its lag in bytes, in the queue where the lag is greatest."""
        found: dict[str, int] = {}
        for reader, behind_bytes in self._behind_bytes.items():
            if behind_bytes > max(limit_bytes, found.get(reader.group, 0)):
                found[reader.group] = behind_bytes
        return found

    def forget(self, group: str) -> None:
        self._behind_bytes = {reader: behind for reader, behind in self._behind_bytes.items() if reader.group != group}


class SlowConsumerWatch:
    """Checks the groups every few minutes, and stops slow ones until an administrator enables them again."""

    def __init__(
        self, slow_consumers: SlowConsumers, settings: Callable[[], BrokerSettings], stop: Callable[[str, int], None]
    ) -> None:
        """`stop` is called with the group and its lag in bytes."""
        self._slow_consumers = slow_consumers
        self._settings = settings
        self._stop = stop
        self._next_ms: int | None = None

    def check(self, now_ms: int) -> int:
        if self._next_ms is None:
            self._next_ms = now_ms + CHECK_MS
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + CHECK_MS
            settings = self._settings()
            if settings.stop_slow_consumers:
                for group, behind_bytes in self._slow_consumers.find_slow(settings.slow_consumer_bytes).items():
                    self._slow_consumers.forget(group)  # once the group is enabled again, only its new reads count
                    self._stop(group, behind_bytes)
        return self._next_ms


def stop_group(groups: SubscriptionGroupTable, group: str, behind_bytes: int) -> None:
    """Disable consumption for a group that reads too far behind the end of the log."""
    config = groups.get(group)
    if config is not None and config.consume_enable:
        log.warning(
            "Stopped group '%s', which reads %d bytes behind the end of the log. Enable it again by updating the group.",
            group,
            behind_bytes,
        )
        groups.stop(group)

"""Every bound of the broker's tables, in one place: no client and no administrator can fill a table without end."""

from __future__ import annotations

from typing import Final

TOPICS_MAX: Final = 200_000
GROUPS_MAX: Final = 200_000
GROUP_NAME_LENGTH_MAX: Final = 120
"""Short enough that `%RETRY%` and the group's name are a valid topic name."""

QUEUES_PER_TOPIC_MAX: Final = 65_536
"""Apache has no bound. With this one, the statistics of a topic, 120 bytes a queue, still fit into a frame."""

ATTRIBUTES_LENGTH_MAX: Final = 8_192

OFFSETS_MAX: Final = 10_000_000
"""Offsets of all groups in all queues."""

PULL_OFFSETS_MAX: Final = 1_000_000
"""Offsets of the last pulls of all groups in all queues. Beyond it the oldest are forgotten."""

CLIENT_ID_LENGTH_MAX: Final = 1_024
PRODUCER_GROUP_NAME_LENGTH_MAX: Final = 255
GROUPS_PER_CONNECTION_MAX: Final = 10_000
MEMBERSHIPS_MAX: Final = 1_000_000
"""Memberships of all connections in all groups of producers and consumers."""

SUBSCRIPTIONS_PER_GROUP_MAX: Final = 10_000
SUBSCRIPTION_BYTES_PER_GROUP_MAX: Final = 4 * 1024 * 1024
SUBSCRIPTION_BYTES_MAX: Final = 256 * 1024 * 1024
"""The text of the subscriptions of one group, and of all groups."""

LARGE_RESPONSE_MESSAGES_MAX: Final = 1_024
LARGE_RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The response to a pull whose client says that it can take large responses."""

SAVE_WAITERS_MAX: Final = 10_000
"""Requests that wait until the topics and groups are on disk. Further ones are refused."""

DEFERRED_SENDS_MAX: Final = 10_000
DEFERRED_SENDS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Sends, and their bodies, that wait until their topic is on disk. Further ones get SYSTEM_BUSY."""

LOCKS_MAX: Final = 1_000_000

PARKED_ANSWERS_MAX: Final = 100_000
PARKED_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Answers that wait for a flush. Beyond either bound, sends are refused before they are stored."""

PAGE_MAX: Final = 2_000
"""Topics or groups on one page of a paged request; Apache's `splitMetadataSize`."""

QUEUE_ENTRIES_SHOWN_MAX: Final = 10_000
"""Entries of a consume queue in one response."""

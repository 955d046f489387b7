"""Names that RocketMQ reserves for itself: system topics, prefixes of topics that belong to a group, and system groups.

Every other module takes these names from here. Each constant names the text that Apache RocketMQ 5.5.0 uses.
"""

from __future__ import annotations

from typing import Final

# --- topics

DEFAULT_TOPIC: Final = "TBW102"
"""The template for topics that a broker creates on the first send. Its route names the brokers that do so."""

BENCHMARK_TOPIC: Final = "BenchmarkTest"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"  # delayed messages, one queue a level
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"  # timed messages
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"  # half messages
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # op messages: which half messages have ended
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"  # half messages that were checked too often
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
FILLER_TOPIC: Final = "rmq_sys_damaged"  # ours: fills the place of damaged records in the log

RETRY_PREFIX: Final = "%RETRY%"  # before a group's name: messages that the group consumes again
DEAD_LETTER_PREFIX: Final = "%DLQ%"  # before a group's name: messages that the group could not consume
REPLY_SUFFIX: Final = "_REPLY_TOPIC"  # behind a cluster's name: replies of request–reply
MEMBER_SYNC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"  # before a broker's name: brokers of one group look each other up by it
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"  # before a cluster's name: popped messages that nobody acknowledged
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"

SYSTEM_TOPICS: Final = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
"""Reserved, whether or not a broker has such a topic."""

NOT_FOR_PRODUCERS: Final = frozenset(
    {SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)
"""Only the broker itself writes to these."""

# --- groups

TRACE_GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"  # before the name of the group that is traced

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""Every broker has this group. Tools read with it, and no offset of a user's group moves."""

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group whose offsets in the half and op topics say how far the transaction checks have come."""

INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"  # a consumer that sends a message back itself
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"  # Apache's own services consume with such groups

SYSTEM_GROUPS: Final = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Every broker has these groups from its first start."""

_INTERNAL_PREFIX: Final = "RMQ_SYS_"  # in either case: brokers create more of these with each version


def is_system_name(name: str) -> bool:
    """Whether a topic or group is reserved, by Apache's rule. Such a name never gets a namespace."""
    return name in SYSTEM_TOPICS or name.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX))


def is_internal_topic(topic: str) -> bool:
    """Whether a topic holds a broker's own messages: wider than Apache's rule, for lists of a user's topics."""
    return topic in SYSTEM_TOPICS or topic[: len(_INTERNAL_PREFIX)].upper() == _INTERNAL_PREFIX


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group

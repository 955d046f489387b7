"""Consumer groups and their settings."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from skyrocket.protocol.bodies.body import Body, DataVersion, Int32, Int64


class GroupRetryPolicyType(StrEnum):
    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class ExponentialRetryPolicy(Body):
    """Times in milliseconds."""

    initial: Int64 = 5_000
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


_DELAYS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)


class CustomizedRetryPolicy(Body):
    next: tuple[Int64, ...] = tuple(delay_s * 1_000 for delay_s in _DELAYS_S)
    """The delay before each further attempt, in milliseconds. An array in Java, which is laid out in one line."""


class GroupRetryPolicy(Body):
    type: GroupRetryPolicyType = GroupRetryPolicyType.CUSTOMIZED
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


class SimpleSubscriptionData(Body):
    topic: str = ""
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body):
    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


class SubscriptionGroupList(Body):
    group_config_list: list[SubscriptionGroupConfig] | None = None


class SubscriptionGroupWrapper(Body):
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden_table: dict[str, dict[str, Int32]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class GroupForbidden(Body):
    topic: str = ""
    group: str = ""
    readable: bool | None = None

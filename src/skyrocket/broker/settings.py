"""Every setting of a broker, as typed rows. Names are Apache's where they mean the same.

A file, the command line and a remote update (25) all go through the same table: an unknown name or a wrong value is refused
with a sentence that names it. What a remote update may change is marked; no path, address, command or class ever is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE
from skyrocket.store.config import DELAY_LEVELS, StoreConfig


class SettingError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    host: str = "127.0.0.1"  # what we listen on
    advertised_host: str = ""  # what clients are told to connect to; empty: the same
    port: int = 10911
    namesrv_addr: str = ""
    store_path: str = "store"
    permission: int = PERM_READ | PERM_WRITE

    auto_create_topic: bool = True
    auto_create_group: bool = True
    default_topic_queues: int = 8
    max_message_bytes: int = 4 * 1024 * 1024
    sync_flush: bool = False
    segment_bytes: int = 1024 * 1024 * 1024
    queue_file_bytes: int = 300_000 * 20
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    index_enabled: bool = True
    flush_interval_ms: int = 500
    reserved_hours: int = 72
    delete_at_hour: int = 4
    disk_max_used_percent: int = 75
    delay_levels: str = DELAY_LEVELS

    timers_enabled: bool = True
    timer_delay_sec_max: int = 3 * 24 * 3600
    timer_precision_ms: int = 1_000
    timer_roll_window_slots: int = 2 * 24 * 3600
    timer_wheel_slots: int = 7 * 24 * 3600
    timer_slot_messages_max: int = 2**31 - 1
    timer_flush_interval_ms: int = 1_000
    timer_log_file_bytes: int = 100 * 1024 * 1024
    timer_delete_key_has_topic: bool = False
    recall_enabled: bool = False
    recall_when_not_writable: bool = True

    reject_transactions: bool = False
    transaction_timeout_ms: int = 6_000  # a younger half message is not asked about
    transaction_check_interval_ms: int = 30_000
    transaction_checks_max: int = 15
    transaction_op_bytes_max: int = 4096  # ends of transactions are noted when they fill so much, or after the interval
    transaction_op_interval_ms: int = 3_000

    long_polling: bool = True
    short_polling_ms: int = 1_000
    pull_messages_max: int = 32
    pull_bytes_max: int = 256 * 1024
    property_filter: bool = False  # SQL92
    register_interval_ms: int = 30_000
    register_timeout_ms: int = 24_000
    offsets_interval_ms: int = 5_000
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    trace_topic: bool = False  # made at the start; without it, by the first who sends a trace
    store_replies: bool = True
    query_max: int = 64  # messages in the answer to a query
    query_default_max: int = 32  # for queries by unique key, which do not say

    stop_slow_consumers: bool = False
    slow_consumer_bytes: int = 16 * 1024 * 1024 * 1024
    refuse_late: bool = True  # requests that waited longer than the following
    send_wait_ms_max: int = 200
    pull_wait_ms_max: int = 5_000
    lite_pull_wait_ms_max: int = 5_000
    heartbeat_wait_ms_max: int = 31_000
    end_transaction_wait_ms_max: int = 3_000
    append_ms_max: int = 1_000  # after sends that took longer to store, others are refused for a while
    tls_certificate: str = ""
    tls_key: str = ""
    tls_only: bool = False

    def store_config(self) -> StoreConfig:
        return StoreConfig(
            segment_bytes=self.segment_bytes,
            queue_entries_per_file=self.queue_file_bytes // 20,
            index_slots=self.index_slots,
            index_entries=self.index_entries,
            index_enabled=self.index_enabled,
            sync_flush=self.sync_flush,
            flush_interval_ms=self.flush_interval_ms,
            reserved_hours=self.reserved_hours,
            delete_at_hour=self.delete_at_hour,
            disk_max_used_percent=self.disk_max_used_percent,
            delay_levels=self.delay_levels,
        )

    @property
    def address(self) -> str:
        host = self.advertised_host or self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def nameservers(self) -> list[str]:
        return [address.strip() for address in self.namesrv_addr.split(";") if address.strip()]


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def _between(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"a number from {least} to {most}")
        return number

    return parse


def _flush_kind(text: str) -> bool:
    try:
        return {"SYNC_FLUSH": True, "ASYNC_FLUSH": False}[text.strip()]
    except KeyError:
        raise ValueError("SYNC_FLUSH or ASYNC_FLUSH") from None


def _tls_mode(text: str) -> bool:
    try:
        return {"enforcing": True, "permissive": False}[text.strip()]
    except KeyError:
        raise ValueError("permissive or enforcing") from None


def _text(text: str) -> str:
    return text.strip()


def _word(text: str) -> str:
    """Goes unescaped into JSON and properties."""
    text = text.strip()
    if not text.replace("-", "").replace("_", "").isalnum() or not text.isascii():
        raise ValueError("a word of letters, digits, - and _")
    return text


class Row(NamedTuple):
    """A setting: Apache's name for it, ours, how it is read and shown, and whether it may change while the broker runs."""

    name: str
    attribute: str
    parse: Callable[[str], Any]
    changeable: bool = False
    show: Callable[[Any], str] = str


def _shown_boolean(value: bool) -> str:
    return "true" if value else "false"


_SIZE = _between(4096, 2**31 - 1)
_MS = _between(1, 2**31 - 1)

ROWS: Final = (
    Row("brokerClusterName", "cluster_name", _word),
    Row("brokerName", "broker_name", _word),
    Row("brokerId", "broker_id", _between(0, 2**31 - 1)),
    Row("bindAddress", "host", _text),
    Row("brokerIP1", "advertised_host", _text),
    Row("listenPort", "port", _between(0, 65_535)),
    Row("namesrvAddr", "namesrv_addr", _text),
    Row("storePathRootDir", "store_path", _text),
    Row("brokerPermission", "permission", _between(0, 7), changeable=True),
    Row("autoCreateTopicEnable", "auto_create_topic", _boolean, changeable=True, show=_shown_boolean),
    Row("autoCreateSubscriptionGroup", "auto_create_group", _boolean, changeable=True, show=_shown_boolean),
    Row("defaultTopicQueueNums", "default_topic_queues", _between(1, 1024), changeable=True),
    Row("maxMessageSize", "max_message_bytes", _between(1, 15 * 1024 * 1024), changeable=True),
    Row("flushDiskType", "sync_flush", _flush_kind, show=lambda sync: "SYNC_FLUSH" if sync else "ASYNC_FLUSH"),
    Row("mappedFileSizeCommitLog", "segment_bytes", _SIZE),
    Row("mappedFileSizeConsumeQueue", "queue_file_bytes", _between(20, 2**31 - 1)),
    Row("maxHashSlotNum", "index_slots", _between(1, 2**28)),
    Row("maxIndexNum", "index_entries", _between(2, 2**28)),
    Row("messageIndexEnable", "index_enabled", _boolean, show=_shown_boolean),
    Row("flushIntervalCommitLog", "flush_interval_ms", _MS),
    Row("fileReservedTime", "reserved_hours", _between(1, 24 * 3650), changeable=True),
    Row("deleteWhen", "delete_at_hour", _between(0, 23), changeable=True, show=lambda hour: f"{hour:02d}"),
    Row("diskMaxUsedSpaceRatio", "disk_max_used_percent", _between(10, 95), changeable=True),
    Row("messageDelayLevel", "delay_levels", _text),
    Row("timerWheelEnable", "timers_enabled", _boolean, show=_shown_boolean),
    Row("timerMaxDelaySec", "timer_delay_sec_max", _between(1, 2**31 - 1), changeable=True),
    Row("timerPrecisionMs", "timer_precision_ms", _between(10, 3_000)),
    Row("timerRollWindowSlot", "timer_roll_window_slots", _between(0, 2**31 - 1), changeable=True),
    Row("timerWheelSlots", "timer_wheel_slots", _between(120, 7 * 24 * 3600)),
    Row("timerCongestNumEachSlot", "timer_slot_messages_max", _between(1, 2**31 - 1), changeable=True),
    Row("timerFlushIntervalMs", "timer_flush_interval_ms", _MS, changeable=True),
    Row("mappedFileSizeTimerLog", "timer_log_file_bytes", _SIZE),
    Row("appendTopicForTimerDeleteKey", "timer_delete_key_has_topic", _boolean, changeable=True, show=_shown_boolean),
    Row("recallMessageEnable", "recall_enabled", _boolean, changeable=True, show=_shown_boolean),
    Row("allowRecallWhenBrokerNotWriteable", "recall_when_not_writable", _boolean, changeable=True, show=_shown_boolean),
    Row("rejectTransactionMessage", "reject_transactions", _boolean, changeable=True, show=_shown_boolean),
    Row("transactionTimeOut", "transaction_timeout_ms", _MS, changeable=True),
    Row("transactionCheckInterval", "transaction_check_interval_ms", _MS, changeable=True),
    Row("transactionCheckMax", "transaction_checks_max", _between(1, 2**31 - 1), changeable=True),
    Row("transactionOpMsgMaxSize", "transaction_op_bytes_max", _between(1, 1024 * 1024), changeable=True),
    Row("transactionOpBatchInterval", "transaction_op_interval_ms", _MS, changeable=True),
    Row("longPollingEnable", "long_polling", _boolean, changeable=True, show=_shown_boolean),
    Row("shortPollingTimeMills", "short_polling_ms", _MS, changeable=True),
    Row("maxTransferCountOnMessageInMemory", "pull_messages_max", _between(1, 1024), changeable=True),
    Row("maxTransferBytesOnMessageInMemory", "pull_bytes_max", _between(1024, 16 * 1024 * 1024), changeable=True),
    Row("enablePropertyFilter", "property_filter", _boolean, changeable=True, show=_shown_boolean),
    Row("registerNameServerPeriod", "register_interval_ms", _between(10_000, 60_000), changeable=True),
    Row("registerBrokerTimeoutMills", "register_timeout_ms", _MS),
    Row("flushConsumerOffsetInterval", "offsets_interval_ms", _MS),
    Row("regionId", "region_id", _word),
    Row("traceOn", "trace_on", _boolean, changeable=True, show=_shown_boolean),
    Row("traceTopicEnable", "trace_topic", _boolean, show=_shown_boolean),
    Row("storeReplyMessageEnable", "store_replies", _boolean, changeable=True, show=_shown_boolean),
    Row("maxMsgsNumBatch", "query_max", _between(1, 1024), changeable=True),
    Row("defaultQueryMaxNum", "query_default_max", _between(1, 1024), changeable=True),
    Row("disableConsumeIfConsumerReadSlowly", "stop_slow_consumers", _boolean, changeable=True, show=_shown_boolean),
    Row("consumerFallbehindThreshold", "slow_consumer_bytes", _between(1, 2**62), changeable=True),
    Row("brokerFastFailureEnable", "refuse_late", _boolean, changeable=True, show=_shown_boolean),
    Row("waitTimeMillsInSendQueue", "send_wait_ms_max", _MS, changeable=True),
    Row("waitTimeMillsInPullQueue", "pull_wait_ms_max", _MS, changeable=True),
    Row("waitTimeMillsInLitePullQueue", "lite_pull_wait_ms_max", _MS, changeable=True),
    Row("waitTimeMillsInHeartbeatQueue", "heartbeat_wait_ms_max", _MS, changeable=True),
    Row("waitTimeMillsInTransactionQueue", "end_transaction_wait_ms_max", _MS, changeable=True),
    Row("osPageCacheBusyTimeOutMills", "append_ms_max", _MS, changeable=True),
    Row("tls.server.certPath", "tls_certificate", _text),
    Row("tls.server.keyPath", "tls_key", _text),
    Row("tls.server.mode", "tls_only", _tls_mode, show=lambda only: "enforcing" if only else "permissive"),
)
BY_NAME: Final = {row.name: row for row in ROWS}

assert {row.attribute for row in ROWS} == {field.name for field in fields(BrokerSettings)}


def with_values(settings: BrokerSettings, values: Mapping[str, str], *, remotely: bool = False) -> BrokerSettings:
    """The settings with these values under Apache's names; all of them or none."""
    changes: dict[str, Any] = {}
    for name, text in values.items():
        row = BY_NAME.get(name)
        if row is None:
            raise SettingError(f"There is no setting '{name}'.")
        if remotely and not row.changeable:
            raise SettingError(f"Setting '{name}' cannot be changed while the broker runs.")
        try:
            changes[row.attribute] = row.parse(text)
        except ValueError as error:
            raise SettingError(f"Setting '{name}' must be {error}, not '{text[:64]}'.") from None
    changed = replace(settings, **changes)
    try:
        changed.store_config()
    except ValueError as error:
        raise SettingError(str(error)) from None
    return changed


def shown(settings: BrokerSettings) -> dict[str, str]:
    """Settings under Apache's names, sorted; where certificates lie is not shown."""
    return {row.name: row.show(getattr(settings, row.attribute)) for row in sorted(ROWS) if not row.name.startswith("tls.")}

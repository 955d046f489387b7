"""Statistics of a broker (rates, delayed and timed messages, replication, background checks), and tables of text."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, DataVersion, Int32, Int64


class BrokerStatsItem(Body):
    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    stats_minute: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_day: BrokerStatsItem | None = None


class DelayOffsetSerializeWrapper(Body):
    """Delay level -> how far its queue of SCHEDULE_TOPIC_XXXX is delivered."""

    offset_table: dict[Int32, Int64] = field(default_factory=dict)
    data_version: DataVersion | None = None


class Metric(Body):
    count: Int64 = 0
    time_stamp: Int64 = 0


class TimerMetricsSerializeWrapper(Body):
    timing_count: dict[str, Metric] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class TransactionMetricsSerializeWrapper(Body):
    transaction_count: dict[str, Metric] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class HAConnectionRuntimeInfo(Body):
    addr: str | None = None
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class HAClientRuntimeInfo(Body):
    """Java's `isActivated` has no accessor, so it never travels."""

    master_addr: str | None = None
    transferred_byte_in_second: Int64 = 0
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_flush_offset: Int64 = 0


class HARuntimeInfo(Body):
    master: bool = False
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)


class CheckRocksdbCqWriteResult(Body):
    check_result: str | None = None
    check_status: Int32 = 0
    """0 fine, 1 not fine, 2 in progress, 3 failed."""


class KVTable(Body):
    table: dict[str, str] = field(default_factory=dict)


class KVConfigSerializeWrapper(Body):
    """The nameserver's key-value file: namespace -> key -> value."""

    config_table: dict[str, dict[str, str]] | None = None

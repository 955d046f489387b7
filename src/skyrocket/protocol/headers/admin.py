"""Administration of a broker except topics, groups and clients: configuration, statistics, files."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.header import Header, Int32, Int64, TopicHeader
from skyrocket.protocol.permissions import ClusterName, GroupName, TopicName, TopicNames


class GetBrokerConfigResponseHeader(Header, kw_only=True):
    """26: the version of the configuration, as JSON."""

    version: str


class GetConsumeStatsRequestHeader(TopicHeader, kw_only=True):
    """208: the lag of a group."""

    consumer_group: GroupName
    topic: TopicName | None = None
    topic_list: TopicNames | None = None


class GetConsumeStatsInBrokerHeader(Header, kw_only=True):
    """317: the lag of all groups of a broker."""

    is_order: bool


class ViewBrokerStatsDataRequestHeader(Header, kw_only=True):
    """315: one statistic of a broker by name and key."""

    stats_name: str
    stats_key: str


class CheckRocksdbCqWriteProgressRequestHeader(Header, kw_only=True):
    """354: compare the consume queues in RocksDB with those in files."""

    topic: TopicName
    check_store_time: Int64 = 0


class ExportRocksDBConfigToJsonRequestHeader(Header, kw_only=True):
    """355: export configuration from RocksDB. Semicolons separate several kinds."""

    config_type: str


class SetCommitLogReadModeRequestHeader(Header, kw_only=True):
    """2004: set how the kernel reads ahead in the commit log. Java has no class for it."""

    read_ahead_mode: Int32 = field(name="READ_AHEAD_MODE")  # 0 normal, 1 random: the values of madvise


class SwitchTimerEngineRequestHeader(Header, kw_only=True):
    """5001: choose the engine for timed messages. Java has no class for it."""

    engine_type: str = field(name="E_T")  # F the files of the timer wheel, R RocksDB


class AddBrokerRequestHeader(Header, kw_only=True):
    """902: start a broker inside a broker container."""

    config_path: str | None = None


class RemoveBrokerRequestHeader(Header, kw_only=True):
    """903: stop a broker inside a broker container."""

    broker_name: str
    broker_cluster_name: ClusterName
    broker_id: Int64


class RegisterFilterServerRequestHeader(Header, kw_only=True):
    """301, only 4.x: a filter server registers with a broker."""

    filter_server_addr: str


class RegisterFilterServerResponseHeader(Header, kw_only=True):
    """301, only 4.x: the response."""

    broker_name: str
    broker_id: Int64


class RegisterMessageFilterClassRequestHeader(Header, kw_only=True):
    """302, only 4.x: a consumer uploads a Java filter class to a filter server."""

    consumer_group: GroupName
    topic: TopicName
    class_name: str
    class_crc: Int32 = field(name="classCRC")

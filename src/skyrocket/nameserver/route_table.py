"""The route table: brokers, their clusters and topics, and the routes that follow from them.

    register(broker, now_ms)        a broker registers its address and topics
    refresh(key, now_ms)            a broker is alive
    unregister(key)                 a broker leaves
    remove_connection(connection)   a connection ended: remove its brokers at once
    remove_silent(now_ms)           remove the brokers whose heartbeats are overdue
    route(topic)                    the route of a topic

Pure: callers pass the time, and a connection is any hashable value. A broker name stands for a group: a master (id 0) and its
slaves, each with an address of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from skyrocket.nameserver.deleted_routes import DeletedRoutes
from skyrocket.nameserver.errors import FullError, NotRegisteredError
from skyrocket.nameserver.limits import BROKERS_MAX
from skyrocket.nameserver.names import check_address, check_name, is_name
from skyrocket.nameserver.topics import TopicQueues
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.bodies import (
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    DataVersion,
    QueueData,
    RegisterBrokerResult,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicRouteData,
)
from skyrocket.protocol.sysflag import PERM_WRITE
from skyrocket.protocol.system_names import MEMBER_SYNC_PREFIX

outside = OutsideLog(logging.getLogger(__name__))

MASTER_ID: Final = 0
SILENT_MS: Final = 120_000  # unless a broker registers with a time-out of its own


class BrokerKey(NamedTuple):
    cluster: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A registration. `topics` are all topics of the broker or, once it is registered, a single new or changed topic."""

    cluster: str
    name: str
    id: int
    address: str
    ha_address: str
    topics: TopicConfigAndMappingSerializeWrapper = field(default_factory=TopicConfigAndMappingSerializeWrapper)
    timeout_ms: int | None = None
    acting_master: bool | None = None  # whether a slave may act as master; None: a version without that feature
    zone: str | None = None
    connection: Hashable = None

    @property
    def key(self) -> BrokerKey:
        return BrokerKey(self.cluster, self.address)

    def with_topics(self, topics: TopicConfigAndMappingSerializeWrapper) -> BrokerRegistration:
        return replace(self, topics=topics)


@dataclass(slots=True)
class _Live:
    name: str
    ha_address: str
    data_version: DataVersion
    connection: Hashable
    last_seen_ms: int
    timeout_ms: int


class RouteTable:
    def __init__(self) -> None:
        self.topics = TopicQueues()
        self._deleted = DeletedRoutes()
        self._groups: dict[str, BrokerData] = {}  # by broker name
        self._clusters: dict[str, set[str]] = {}  # cluster -> broker names
        self._live: dict[BrokerKey, _Live] = {}

    # --- brokers register

    def register(self, broker: BrokerRegistration, now_ms: int, *, forget_missing: bool = False) -> RegisterBrokerResult:
        """Register a broker. With `forget_missing`, topics that it does not name lose their route."""
        self._check(broker)
        group = self._groups.get(broker.name)
        # An address has one id: a slave that becomes master gives up its old one.
        addresses = {id_: address for id_, address in _addresses(group).items() if address != broker.address or id_ == broker.id}
        if self._is_outdated(broker, addresses.get(broker.id)):
            outside.warning(
                "Ignored the registration of %s as %s/%d: its state is older than the registered one.", *_log_values(broker)
            )
            self._live.pop(broker.key, None)
            if group is not None:
                group.broker_addrs = addresses
            return RegisterBrokerResult()
        is_first = broker.id not in addresses
        if is_first and len(broker.topics.topic_config_table) == 1:
            raise NotRegisteredError(
                f"Broker {broker.name} must register with all its topics before it registers a single topic."
            )
        self._leave_old_name(broker)
        addresses[broker.id] = broker.address
        self._groups[broker.name] = group = group or BrokerData(cluster=broker.cluster, broker_name=broker.name)
        group.broker_addrs = addresses
        group.enable_acting_master = bool(broker.acting_master)
        group.zone_name = broker.zone
        self._clusters.setdefault(broker.cluster, set()).add(broker.name)
        # A slave registers topics only where there is no master; slaves of old versions never do.
        is_prime_slave = broker.id != MASTER_ID and broker.acting_master is not None and broker.id == min(addresses)
        if broker.id == MASTER_ID or is_prime_slave:
            read_only = is_prime_slave and group.enable_acting_master
            self._update_topics(broker, is_first=is_first, read_only=read_only, forget_missing=forget_missing)
        if broker.key not in self._live:
            outside.info("Registered %s as %s/%d.", *_log_values(broker))
        self._live[broker.key] = _Live(
            name=broker.name,
            ha_address=broker.ha_address,
            data_version=broker.topics.data_version,
            connection=broker.connection,
            last_seen_ms=now_ms,
            timeout_ms=SILENT_MS if broker.timeout_ms is None else broker.timeout_ms,
        )
        return RegisterBrokerResult() if broker.id == MASTER_ID else self._master(broker.cluster, addresses)

    def _check(self, broker: BrokerRegistration) -> None:
        check_name("cluster", broker.cluster)
        check_name("broker", broker.name)
        check_address(broker.address)
        if broker.ha_address:
            check_address(broker.ha_address)
        if broker.key not in self._live and len(self._live) >= BROKERS_MAX:
            raise FullError(f"The nameserver already has {BROKERS_MAX} brokers, which is the limit.")
        self.topics.check_room(
            broker.name, broker.topics.topic_config_table.keys(), broker.topics.topic_queue_mapping_info_map.keys()
        )

    def _is_outdated(self, broker: BrokerRegistration, holder: str | None) -> bool:
        """Whether another address has this id with a newer state: the broker that registers was replaced meanwhile."""
        if holder is None or holder == broker.address:
            return False
        live = self._live.get(BrokerKey(broker.cluster, holder))
        return live is not None and live.data_version.state_version > broker.topics.data_version.state_version

    def _leave_old_name(self, broker: BrokerRegistration) -> None:
        """Unregister the address from its previous broker name, since nothing else would."""
        live = self._live.get(broker.key)
        if live is not None and live.name != broker.name:
            self.unregister(broker.key)

    def _update_topics(self, broker: BrokerRegistration, *, is_first: bool, read_only: bool, forget_missing: bool) -> None:
        table = broker.topics.topic_config_table
        mappings = broker.topics.topic_queue_mapping_info_map
        if forget_missing and not mappings and len(table) > 1:  # a single topic is a change, not the whole list
            self.topics.keep_only(broker.name, table.keys())
        if len(table) > 1:
            for topic in self._deleted.take_unnamed(broker.name, table.keys()):
                self.topics.remove(topic, [broker.name])
        is_changed = is_first or self.is_changed(broker.key, broker.topics.data_version)
        for topic, config in table.items():
            if not is_name(topic):
                outside.warning("Topic '%s' of broker %s has an invalid name and gets no route.", topic, broker.name)
            elif is_changed or not self.topics.has(topic, broker.name):
                self.topics.put(topic, _queues(broker.name, config, read_only=read_only))
        if is_changed:
            for topic, mapping in mappings.items():
                self.topics.put_mapping(topic, broker.name, mapping)

    def _master(self, cluster: str, addresses: dict[int, str]) -> RegisterBrokerResult:
        """Return the address of the master that a slave follows."""
        master = addresses.get(MASTER_ID)
        live = None if master is None else self._live.get(BrokerKey(cluster, master))
        return (
            RegisterBrokerResult() if live is None else RegisterBrokerResult(master_addr=master, ha_server_addr=live.ha_address)
        )

    def refresh(self, key: BrokerKey, now_ms: int) -> None:
        live = self._live.get(key)
        if live is not None:
            live.last_seen_ms = now_ms

    # --- brokers leave

    def unregister(self, key: BrokerKey, broker_name: str = "") -> None:
        """Unregister a broker. `broker_name` is used when the address is not registered."""
        live = self._live.pop(key, None)
        name = broker_name if live is None else live.name
        group = self._groups.get(name)
        if group is None:
            return
        group.broker_addrs = {id_: address for id_, address in _addresses(group).items() if address != key.address}
        if not group.broker_addrs:
            self._forget(name)
        elif group.enable_acting_master and MASTER_ID not in group.broker_addrs:
            self.topics.forbid_writing(name)  # a slave acts as master, and slaves take no messages

    def _forget(self, broker_name: str) -> None:
        del self._groups[broker_name]
        for cluster, names in list(self._clusters.items()):
            names.discard(broker_name)
            if not names:
                del self._clusters[cluster]
        self.topics.remove_broker(broker_name)
        self._deleted.remove_broker(broker_name)

    def remove_connection(self, connection: Hashable) -> list[BrokerKey]:
        """Remove and return the brokers that last registered over this connection."""
        gone = [key for key, live in self._live.items() if live.connection is connection]
        for key in gone:
            self.unregister(key)
        return gone

    def remove_silent(self, now_ms: int) -> list[tuple[BrokerKey, Hashable]]:
        """Remove and return the brokers that were silent for too long, with their connections."""
        late = [(key, live.connection) for key, live in self._live.items() if live.last_seen_ms + live.timeout_ms < now_ms]
        for key, _ in late:
            self.unregister(key)
        return late

    # --- topics that an administrator changes

    def register_topic(self, topic: str, queues: list[QueueData]) -> None:
        """Add queues of a topic on registered brokers, all or none."""
        check_name("topic", topic)
        for row in queues:
            if row.broker_name not in self._groups:
                raise NotRegisteredError(
                    f"Topic {topic} cannot be on broker {row.broker_name[:255]!r}: that broker is not registered."
                )
            self.topics.check_room(row.broker_name, [topic])
        for row in queues:
            self.topics.put(topic, row)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        brokers = self._groups if cluster is None else self._clusters.get(cluster, ())
        self.topics.remove(topic, None if cluster is None else brokers)
        self._deleted.add(topic, brokers)

    # --- queries

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        live = self._live.get(key)
        return None if live is None else live.data_version

    def is_changed(self, key: BrokerKey, version: DataVersion | None) -> bool:
        """Whether the broker's state differs from the one that it registered."""
        known = self.data_version(key)
        return known is None or known != version

    def route(self, topic: str, *, acting_masters: bool = False) -> TopicRouteData | None:
        """Return the route of a topic, or None when no broker has it. With `acting_masters`, show acting masters as masters."""
        queues = self.topics.queues(topic)
        brokers = [_copy(self._groups[row.broker_name]) for row in queues if row.broker_name in self._groups]
        if not brokers:
            return None
        if acting_masters and not topic.startswith(MEMBER_SYNC_PREFIX):
            writable = {row.broker_name for row in queues if row.perm & PERM_WRITE}
            for broker in brokers:
                if broker.enable_acting_master and broker.broker_name not in writable:
                    _promote(broker)
        mappings = self.topics.mappings(topic)
        return TopicRouteData(
            queue_datas=queues, broker_datas=brokers, topic_queue_mapping_by_broker=None if mappings is None else dict(mappings)
        )

    def registered(self) -> list[BrokerKey]:
        """Return the brokers that are registered."""
        return list(self._live)

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table=dict(sorted(self._groups.items())),
            cluster_addr_table={cluster: sorted(names) for cluster, names in sorted(self._clusters.items())},
        )

    def member_group(self, cluster: str, broker_name: str) -> BrokerMemberGroup:
        addresses = dict(_addresses(self._groups.get(broker_name)))
        return BrokerMemberGroup(cluster=cluster, broker_name=broker_name, broker_addrs=addresses)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        return self.topics.of_brokers(self._clusters.get(cluster, ()))

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return the names of clusters and brokers, which are topics too, and the address of a broker that has more."""
        names = {*self._clusters, *self._groups}
        addresses = [address for _, group in sorted(self._groups.items()) for _, address in sorted(_addresses(group).items())]
        return sorted(names), next(iter(addresses), None)


def in_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Keep the brokers of a zone, and those without a master: a client that must read from a slave takes any."""
    near = [
        broker
        for broker in route.broker_datas
        if MASTER_ID not in _addresses(broker) or (broker.zone_name or "").lower() == zone.lower()
    ]
    far = {broker.broker_name for broker in route.broker_datas} - {broker.broker_name for broker in near}
    return TopicRouteData(
        order_topic_conf=route.order_topic_conf,
        queue_datas=[queues for queues in route.queue_datas if queues.broker_name not in far],
        broker_datas=near,
        topic_queue_mapping_by_broker=route.topic_queue_mapping_by_broker,
    )


def _addresses(group: BrokerData | None) -> dict[int, str]:
    return {} if group is None or group.broker_addrs is None else group.broker_addrs


def _log_values(broker: BrokerRegistration) -> tuple[str, str, int]:
    return broker.address, broker.name, broker.id


def _queues(broker_name: str, config: TopicConfig, *, read_only: bool) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm & ~PERM_WRITE if read_only else config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


def _copy(group: BrokerData) -> BrokerData:
    return BrokerData(
        cluster=group.cluster,
        broker_name=group.broker_name,
        broker_addrs=dict(_addresses(group)),
        zone_name=group.zone_name,
        enable_acting_master=group.enable_acting_master,
    )


def _promote(broker: BrokerData) -> None:
    addresses = _addresses(broker)
    if addresses and MASTER_ID not in addresses:
        addresses[MASTER_ID] = addresses.pop(min(addresses))

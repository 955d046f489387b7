"""Administration of topics: create, change, delete and list them; their routes and queues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import (
    QueueStatus,
    TopicBroker,
    TopicRoute,
    TopicSettings,
    TopicStatus,
    permission_bits,
    permission_text,
)
from skyrocket.client.errors import BrokerError, ConfigurationError, TimedOutError
from skyrocket.client.session.names import check_topic
from skyrocket.protocol.bodies import GroupList, TopicConfig, TopicList, TopicRouteData, TopicStatsTable
from skyrocket.protocol.headers import (
    CreateTopicRequestHeader,
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetRouteInfoRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    PutKVConfigRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, DEFAULT_TOPIC, REPLY_SUFFIX, RETRY_PREFIX, is_internal_topic

QUEUES_DEFAULT: Final = 8
QUEUES_MAX: Final = 65_536
_ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"  # in the key-value table of the nameservers
_INTERNAL_PREFIXES: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
_ROUTE_POLL_S: Final = 0.02


class TopicAdmin:
    """Topics of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # --- change

    async def create(
        self,
        topic: str,
        *,
        queues: int | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        permission: str | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> list[TopicSettings]:
        """Create a topic at all masters, or at those of `cluster` or `brokers`. An existing topic is changed; None keeps a value.

        `queues` sets read and write queues; a new topic has 8 by default. `permission` is rw, r, w or -. Attributes are Apache's,
        such as {"message.type": "FIFO"}; None removes one. Returns when the nameservers have the new route.
        """
        check_topic(topic)
        masters = await self._brokers.masters(cluster, brokers)
        if order is not None:  # the nameservers keep it
            await self._brokers.check_nameservers()
        changes = _config_changes(queues, read_queues, write_queues, permission, order)
        settings = await self._brokers.for_each(
            list(masters), lambda name: self._update(topic, name, masters[name], changes, attributes or {})
        )
        if order is False:
            await self._write_order(topic, {})
        elif any(one.is_ordered for one in settings):
            await self._write_order(
                topic, {**await self._fetch_order(topic), **{one.broker_name: one.write_queues for one in settings}}
            )
        await self._wait_for_route(topic, settings)
        return settings

    async def _update(
        self, topic: str, name: str, address: str, changes: Mapping[str, int | bool], attributes: Mapping[str, str | None]
    ) -> TopicSettings:
        config = await self._fetch_config(topic, address) or TopicConfig(
            topic_name=self._brokers.to_wire(topic), read_queue_nums=QUEUES_DEFAULT, write_queue_nums=QUEUES_DEFAULT
        )
        for field, value in changes.items():
            setattr(config, field, value)
        header = CreateTopicRequestHeader(
            topic=self._brokers.to_wire(topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type.value,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=_attribute_changes(attributes) or None,
        )
        await self._brokers.session.request_ok(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        config.attributes = {key: value for key, value in {**config.attributes, **attributes}.items() if value is not None}
        return _settings(topic, name, config)

    async def _fetch_order(self, topic: str) -> dict[str, int]:
        """Fetch broker -> queues of an ordered topic from a nameserver. Empty if there is no entry."""
        header = GetKVConfigRequestHeader(namespace=_ORDER_NAMESPACE, key=self._brokers.to_wire(topic))
        answer = await self._brokers.session.request_nameserver(RequestCode.GET_KV_CONFIG, header)
        text = answer.header(GetKVConfigResponseHeader).value if answer.code == ResponseCode.SUCCESS else None
        parts = [part.rpartition(":") for part in (text or "").split(";")]
        return {broker: int(count) for broker, _, count in parts if broker and count.isdigit()}

    async def _write_order(self, topic: str, queues: Mapping[str, int]) -> None:
        """Write the order entry of a topic to all nameservers: brokers read there which topics are ordered."""
        key = self._brokers.to_wire(topic)
        if not queues:
            header = DeleteKVConfigRequestHeader(namespace=_ORDER_NAMESPACE, key=key)
            await self._brokers.request_all_nameservers(RequestCode.DELETE_KV_CONFIG, header)
            return
        value = ";".join(f"{broker}:{count}" for broker, count in queues.items())
        put_header = PutKVConfigRequestHeader(namespace=_ORDER_NAMESPACE, key=key, value=value)
        await self._brokers.request_all_nameservers(RequestCode.PUT_KV_CONFIG, put_header)

    async def _wait_for_route(self, topic: str, settings: list[TopicSettings]) -> None:
        expected = {(one.broker_name, one.read_queues, one.write_queues, one.permission) for one in settings}
        deadline_ms = self._brokers.session.now_ms() + self._brokers.session.limits.request_ms
        while True:
            route = await self._fetch_route(topic)
            found = route.brokers if route is not None else []
            if expected <= {(one.broker_name, one.read_queues, one.write_queues, one.permission) for one in found}:
                break
            if self._brokers.session.now_ms() >= deadline_ms:
                if {one.broker_name for one in settings} <= {one.broker_name for one in found}:
                    break  # a broker without write permission registers fewer queues than the topic has
                raise TimedOutError(
                    f"Topic '{topic}' is created, but no nameserver has its route yet. Wait a moment and try again."
                )
            await asyncio.sleep(_ROUTE_POLL_S)
        self._brokers.session.routes.forget(self._brokers.to_wire(topic))

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic at all masters and nameservers, or only in one cluster. Its messages and its consumer offsets are lost.

        Raises NoRouteError if the topic does not exist, and BrokerError before anything is deleted if a nameserver refuses it.
        """
        await self._brokers.route(topic)
        masters = await self._brokers.masters(cluster)
        await self._brokers.check_nameservers()
        wire_topic, request_ok = self._brokers.to_wire(topic), self._brokers.session.request_ok
        header = DeleteTopicRequestHeader(topic=wire_topic)
        await self._brokers.for_each(
            list(masters.values()), lambda address: request_ok(address, RequestCode.DELETE_TOPIC_IN_BROKER, header)
        )
        from_nameservers = DeleteTopicFromNamesrvRequestHeader(topic=wire_topic, cluster_name=cluster)
        await self._brokers.request_all_nameservers(RequestCode.DELETE_TOPIC_IN_NAMESRV, from_nameservers)
        await self._write_order(topic, {})
        self._brokers.session.routes.forget(wire_topic)

    # --- query

    async def names(self, *, internal: bool = False) -> list[str]:
        """List the names of all topics, sorted. System, retry and dead-letter topics only with `internal`."""
        answer = await self._brokers.request_nameserver(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        topics = [name for name in self._brokers.decode_body(answer, TopicList).topic_list if self._brokers.is_in_namespace(name)]
        if not internal:
            answer = await self._brokers.request_nameserver(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            system_topics = set(self._brokers.decode_body(answer, TopicList).topic_list)  # names of clusters and brokers, too
            topics = [name for name in topics if not _is_internal(name, system_topics)]
        return sorted(self._brokers.to_user(name) for name in topics)

    async def get(self, topic: str) -> list[TopicSettings]:
        """Fetch the settings of a topic at each broker that has it."""
        addresses = await self._brokers.addresses_of_topic(topic)
        configs = await self._brokers.for_each(list(addresses), lambda name: self._fetch_config(topic, addresses[name]))
        return [_settings(topic, name, config) for name, config in zip(addresses, configs, strict=True) if config is not None]

    async def get_at(self, topic: str, broker: str) -> TopicSettings | None:
        """Fetch the settings of a topic at the master with this name, also of a topic without a route. None: it has no such."""
        config = await self._fetch_config(topic, await self._brokers.address(broker))
        return None if config is None else _settings(topic, broker, config)

    async def _fetch_config(self, topic: str, address: str) -> TopicConfig | None:
        header = GetTopicConfigRequestHeader(topic=self._brokers.to_wire(topic))
        try:
            answer = await self._brokers.session.request_ok(address, RequestCode.GET_TOPIC_CONFIG, header)
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        return self._brokers.decode_body(answer, TopicConfig)

    async def route(self, topic: str) -> TopicRoute:
        """Fetch the route of a topic. Raises NoRouteError if the topic does not exist."""
        found = await self._fetch_route(topic)
        if found is None:
            raise self._brokers.no_route(topic)
        return found

    async def _fetch_route(self, topic: str) -> TopicRoute | None:
        header = GetRouteInfoRequestHeader(topic=self._brokers.to_wire(topic), accept_standard_json_only=True)
        answer = await self._brokers.session.request_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", "The nameserver")
        data = self._brokers.decode_body(answer, TopicRouteData)
        known = {broker.broker_name: broker for broker in data.broker_datas}
        brokers = [
            TopicBroker(
                broker_name=row.broker_name,
                cluster=known[row.broker_name].cluster or "",
                addresses=dict(sorted((known[row.broker_name].broker_addrs or {}).items())),
                read_queues=row.read_queue_nums,
                write_queues=row.write_queue_nums,
                permission=permission_text(row.perm),
            )
            for row in sorted(data.queue_datas, key=lambda row: row.broker_name)
            if row.broker_name in known
        ]
        return TopicRoute(topic=topic, brokers=brokers)

    async def status(self, topic: str) -> TopicStatus:
        """Fetch the first and last offset of every queue, and the time of its last message."""
        addresses = await self._brokers.addresses_of_topic(topic)
        header = GetTopicStatsInfoRequestHeader(topic=self._brokers.to_wire(topic))
        request_ok = self._brokers.session.request_ok
        answers = await self._brokers.for_each(
            list(addresses.values()), lambda address: request_ok(address, RequestCode.GET_TOPIC_STATS_INFO, header)
        )
        queues = [
            QueueStatus(
                topic=topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                first_offset=max(0, offsets.min_offset),
                end_offset=max(0, offsets.max_offset),
                updated_ms=max(0, offsets.last_update_timestamp),
            )
            for answer in answers
            for queue, offsets in self._brokers.decode_body(answer, TopicStatsTable).offset_table.items()
        ]
        queues.sort(key=lambda row: row.queue)
        return TopicStatus(topic=topic, messages=sum(row.messages for row in queues), queues=queues)

    async def groups(self, topic: str) -> list[str]:
        """List the groups that consume a topic now, or have an offset in it."""
        addresses = await self._brokers.addresses_of_topic(topic)
        header = QueryTopicConsumeByWhoRequestHeader(topic=self._brokers.to_wire(topic))
        request_ok = self._brokers.session.request_ok
        answers = await self._brokers.for_each(
            list(addresses.values()), lambda address: request_ok(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        )
        found = {group for answer in answers for group in self._brokers.decode_body(answer, GroupList).group_list}
        return sorted(self._brokers.to_user(group) for group in found)


def _config_changes(
    queues: int | None, read_queues: int | None, write_queues: int | None, permission: str | None, order: bool | None
) -> dict[str, int | bool]:
    """Return field of TopicConfig -> value, of the arguments that are not None."""
    given = {
        "read_queue_nums": queues if read_queues is None else read_queues,
        "write_queue_nums": queues if write_queues is None else write_queues,
        "perm": None if permission is None else permission_bits(permission),
        "order": order,
    }
    for count in (queues, read_queues, write_queues):
        if count is not None and not 0 < count <= QUEUES_MAX:
            raise ConfigurationError(f"A topic has 1 to {QUEUES_MAX} queues at a broker, not {count}.")
    return {field: value for field, value in given.items() if value is not None}


def _attribute_changes(attributes: Mapping[str, str | None]) -> str:
    """Encode attributes as on the wire: +name=value sets, -name removes."""
    return ",".join(f"-{name}" if value is None else f"+{name}={value}" for name, value in attributes.items())


def _settings(topic: str, broker_name: str, config: TopicConfig) -> TopicSettings:
    return TopicSettings(
        topic=topic,
        broker_name=broker_name,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        permission=permission_text(config.perm),
        is_ordered=config.order,
        attributes=dict(config.attributes),
    )


def _is_internal(topic: str, system_topics: set[str]) -> bool:
    is_reserved = topic in system_topics or is_internal_topic(topic)
    return is_reserved or topic.startswith(_INTERNAL_PREFIXES) or topic.endswith(REPLY_SUFFIX)

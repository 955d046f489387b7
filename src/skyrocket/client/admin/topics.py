"""Topics, for an administrator: made, changed, deleted, listed, and where they are."""

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
from skyrocket.client.errors import BrokerError, ConfigurationError, NoRouteError, TimedOutError
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
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, DEFAULT_TOPIC, REPLY_SUFFIX, RETRY_PREFIX, is_system_name

QUEUES_DEFAULT: Final = 8
QUEUES_MAX: Final = 65_536
_ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"  # of the nameservers' table of keys and values
_INTERNAL_PREFIXES: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
_LOOK_AGAIN_S: Final = 0.02


class Topics:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # --- changing

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
        """Make a topic at every master (or those of `cluster`, or `brokers`), or change it where it is: what is not said stays.

        `queues` is for reading and writing; without any, a new topic has 8. `permission` is rw, r, w or -. Attributes are
        Apache's, such as {"message.type": "FIFO"}; None takes one away. Returns when the nameservers lead to it.
        """
        check_topic(topic)
        masters = await self._brokers.masters(cluster, brokers)
        changes = _changes(queues, read_queues, write_queues, permission, order)
        settings = await self._brokers.each(
            list(masters), lambda name: self._put(topic, name, masters[name], changes, attributes or {})
        )
        if order is False:
            await self._tell_order(topic, {})
        elif any(one.is_ordered for one in settings):
            await self._tell_order(topic, {**await self._order(topic), **{one.broker_name: one.write_queues for one in settings}})
        await self._until_known(topic, settings)
        return settings

    async def _put(
        self, topic: str, name: str, address: str, changes: Mapping[str, int | bool], attributes: Mapping[str, str | None]
    ) -> TopicSettings:
        config = await self._config(topic, address) or TopicConfig(
            topic_name=self._brokers.wire(topic), read_queue_nums=QUEUES_DEFAULT, write_queue_nums=QUEUES_DEFAULT
        )
        for field, value in changes.items():
            setattr(config, field, value)
        header = CreateTopicRequestHeader(
            topic=self._brokers.wire(topic),
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

    async def _order(self, topic: str) -> dict[str, int]:
        """Broker -> queues of an ordered topic, as the nameservers have it; empty where they have nothing."""
        header = GetKVConfigRequestHeader(namespace=_ORDER_NAMESPACE, key=self._brokers.wire(topic))
        answer = await self._brokers.session.request_nameserver(RequestCode.GET_KV_CONFIG, header)
        text = answer.header(GetKVConfigResponseHeader).value if answer.code == ResponseCode.SUCCESS else None
        parts = [part.rpartition(":") for part in (text or "").split(";")]
        return {broker: int(count) for broker, _, count in parts if broker and count.isdigit()}

    async def _tell_order(self, topic: str, queues: Mapping[str, int]) -> None:
        """Brokers learn from the nameservers which topics are ordered, and forget what those do not say."""
        key = self._brokers.wire(topic)
        if not queues:
            gone = DeleteKVConfigRequestHeader(namespace=_ORDER_NAMESPACE, key=key)
            await self._brokers.tell_nameservers(RequestCode.DELETE_KV_CONFIG, gone)
            return
        value = ";".join(f"{broker}:{count}" for broker, count in queues.items())
        header = PutKVConfigRequestHeader(namespace=_ORDER_NAMESPACE, key=key, value=value)
        await self._brokers.tell_nameservers(RequestCode.PUT_KV_CONFIG, header)

    async def _until_known(self, topic: str, settings: list[TopicSettings]) -> None:
        wanted = {(one.broker_name, one.read_queues, one.write_queues, one.permission) for one in settings}
        deadline_ms = self._brokers.session.now_ms() + self._brokers.session.limits.request_ms
        while True:
            route = await self._route(topic)
            found = route.brokers if route is not None else []
            if wanted <= {(one.broker_name, one.read_queues, one.write_queues, one.permission) for one in found}:
                break
            if self._brokers.session.now_ms() >= deadline_ms:
                if {one.broker_name for one in settings} <= {one.broker_name for one in found}:
                    break  # a broker that may not be written to tells of less than the topic's settings say
                raise TimedOutError(f"Topic '{topic}' is made, but the nameservers do not tell of it yet.")
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._brokers.session.routes.forget(self._brokers.wire(topic))

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """At every master, and at the nameservers, of all clusters or of one. Its messages cannot be read any more, and groups
        lose their offsets in it. NoRouteError when there is no such topic."""
        await self._brokers.route(topic)
        masters = await self._brokers.masters(cluster)
        wire, ask_for = self._brokers.wire(topic), self._brokers.session.request_ok
        header = DeleteTopicRequestHeader(topic=wire)
        await self._brokers.each(
            list(masters.values()), lambda address: ask_for(address, RequestCode.DELETE_TOPIC_IN_BROKER, header)
        )
        everywhere = DeleteTopicFromNamesrvRequestHeader(topic=wire, cluster_name=cluster)
        await self._brokers.tell_nameservers(RequestCode.DELETE_TOPIC_IN_NAMESRV, everywhere)
        await self._tell_order(topic, {})
        self._brokers.session.routes.forget(wire)

    # --- asking

    async def names(self, *, internal: bool = False) -> list[str]:
        """Sorted. The system's own, retry and dead-letter topics are left out unless `internal`."""
        answer = await self._brokers.ask_nameserver(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        topics = [name for name in self._brokers.read(answer, TopicList).topic_list if self._brokers.is_ours(name)]
        if not internal:
            answer = await self._brokers.ask_nameserver(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            named = set(self._brokers.read(answer, TopicList).topic_list)  # after clusters and brokers
            topics = [name for name in topics if not _is_internal(name, named)]
        return sorted(self._brokers.user(name) for name in topics)

    async def get(self, topic: str) -> list[TopicSettings]:
        """Its settings at each broker that has it."""
        addresses = await self._brokers.of_topic(topic)
        configs = await self._brokers.each(list(addresses), lambda name: self._config(topic, addresses[name]))
        return [_settings(topic, name, config) for name, config in zip(addresses, configs, strict=True) if config is not None]

    async def _config(self, topic: str, address: str) -> TopicConfig | None:
        header = GetTopicConfigRequestHeader(topic=self._brokers.wire(topic))
        try:
            answer = await self._brokers.session.request_ok(address, RequestCode.GET_TOPIC_CONFIG, header)
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        return self._brokers.read(answer, TopicConfig)

    async def route(self, topic: str) -> TopicRoute:
        found = await self._route(topic)
        if found is None:
            raise NoRouteError(f"The nameservers know no topic '{topic}'.", topic)
        return found

    async def _route(self, topic: str) -> TopicRoute | None:
        header = GetRouteInfoRequestHeader(topic=self._brokers.wire(topic), accept_standard_json_only=True)
        answer = await self._brokers.session.request_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", "The nameserver")
        data = self._brokers.read(answer, TopicRouteData)
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
        """The first and last offsets of every queue, and when each got its last message."""
        addresses = await self._brokers.of_topic(topic)
        header = GetTopicStatsInfoRequestHeader(topic=self._brokers.wire(topic))
        ask_for = self._brokers.session.request_ok
        answers = await self._brokers.each(
            list(addresses.values()), lambda address: ask_for(address, RequestCode.GET_TOPIC_STATS_INFO, header)
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
            for queue, offsets in self._brokers.read(answer, TopicStatsTable).offset_table.items()
        ]
        queues.sort(key=lambda row: row.queue)
        return TopicStatus(topic=topic, messages=sum(row.messages for row in queues), queues=queues)

    async def groups(self, topic: str) -> list[str]:
        """Those that consume it now, or have an offset in it."""
        addresses = await self._brokers.of_topic(topic)
        header = QueryTopicConsumeByWhoRequestHeader(topic=self._brokers.wire(topic))
        ask_for = self._brokers.session.request_ok
        answers = await self._brokers.each(
            list(addresses.values()), lambda address: ask_for(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        )
        found = {group for answer in answers for group in self._brokers.read(answer, GroupList).group_list}
        return sorted(self._brokers.user(group) for group in found)


def _changes(
    queues: int | None, read_queues: int | None, write_queues: int | None, permission: str | None, order: bool | None
) -> dict[str, int | bool]:
    """Field of a TopicConfig -> value, of what was said."""
    said = {
        "read_queue_nums": queues if read_queues is None else read_queues,
        "write_queue_nums": queues if write_queues is None else write_queues,
        "perm": None if permission is None else permission_bits(permission),
        "order": order,
    }
    for count in (queues, read_queues, write_queues):
        if count is not None and not 0 < count <= QUEUES_MAX:
            raise ConfigurationError(f"A topic has 1 to {QUEUES_MAX} queues at a broker, not {count}.")
    return {field: value for field, value in said.items() if value is not None}


def _attribute_changes(attributes: Mapping[str, str | None]) -> str:
    """As they travel: +name=value sets, -name takes away."""
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


def _is_internal(topic: str, named: set[str]) -> bool:
    return topic in named or is_system_name(topic) or topic.startswith(_INTERNAL_PREFIXES) or topic.endswith(REPLY_SUFFIX)

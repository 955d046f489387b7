"""Groups, for an administrator: made, changed, deleted, listed; who is in them, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import (
    GroupMember,
    GroupMembers,
    GroupProgress,
    GroupSettings,
    ProducerClient,
    QueueProgress,
)
from skyrocket.client.errors import BrokerError, NotFoundError
from skyrocket.client.session.names import check_group
from skyrocket.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ConsumeStats,
    MessageModel,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicList,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import (
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import SYSTEM_GROUPS, dead_letter_topic, is_system_name, retry_topic
from skyrocket.protocol.versions import version_text


class Groups:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # --- changing

    async def create(
        self,
        group: str,
        *,
        enabled: bool | None = None,
        broadcast: bool | None = None,
        orderly: bool | None = None,
        retries_max: int | None = None,
        retry_queues: int | None = None,
        attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> list[GroupSettings]:
        """Make a group at every master (or those of `cluster`, or `brokers`), or change it where it is: what is not said stays.

        `enabled` is whether it may consume, `broadcast` whether its consumers may each get everything, `orderly` that they
        consume in order, `retries_max` how often a message is given again before it is a dead letter.
        """
        check_group(group)
        said: dict[str, bool | int | None] = {
            "consume_enable": enabled,
            "consume_broadcast_enable": broadcast,
            "consume_message_orderly": orderly,
            "retry_max_times": retries_max,
            "retry_queue_nums": retry_queues,
        }
        changes = {field: value for field, value in said.items() if value is not None}
        masters = await self._brokers.masters(cluster, brokers)
        return await self._brokers.each(
            list(masters), lambda name: self._put(group, name, masters[name], changes, attributes or {})
        )

    async def _put(
        self, group: str, name: str, address: str, changes: Mapping[str, bool | int], attributes: Mapping[str, str | None]
    ) -> GroupSettings:
        wire = self._brokers.wire(group)
        config = (await self._configs(address)).get(wire) or SubscriptionGroupConfig(group_name=wire)
        kept = dict(config.attributes)
        for field, value in changes.items():
            setattr(config, field, value)
        config.attributes = {f"-{key}" if value is None else f"+{key}": value or "" for key, value in attributes.items()}
        body = encode(config)
        await self._brokers.session.request_ok(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        config.attributes = {key: value for key, value in {**kept, **attributes}.items() if value is not None}
        return _settings(group, name, config)

    async def delete(self, group: str, *, offsets: bool = True, topics: bool = False) -> None:
        """At every master; with its offsets, and with `topics` its retry and dead-letter topic and all that is in them.
        NotFoundError when no broker knows it."""
        known = await self.get(group)
        masters = await self._brokers.masters()
        wire = self._brokers.wire(group)
        header = DeleteSubscriptionGroupRequestHeader(group_name=wire, clean_offset=offsets)
        there = {one.broker_name: masters[one.broker_name] for one in known if one.broker_name in masters}
        await self._each(there, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)  # others of Apache's would make it now
        for topic in (retry_topic(wire), dead_letter_topic(wire)) if topics else ():
            await self._each(masters, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))
            everywhere = DeleteTopicFromNamesrvRequestHeader(topic=topic)
            await self._brokers.tell_nameservers(RequestCode.DELETE_TOPIC_IN_NAMESRV, everywhere)

    # --- asking

    async def names(self, *, internal: bool = False) -> list[str]:
        """Sorted. The system's own are left out unless `internal`."""
        masters = await self._brokers.masters()
        tables = await self._brokers.each(list(masters.values()), self._configs)
        found = {name for table in tables for name in table if self._brokers.is_ours(name)}
        if not internal:
            found = {name for name in found if name not in SYSTEM_GROUPS and not is_system_name(name)}
        return sorted(self._brokers.user(name) for name in found)

    async def get(self, group: str) -> list[GroupSettings]:
        """Its settings at each broker that knows it. NotFoundError when none does."""
        masters = await self._brokers.masters()
        tables = await self._brokers.each(list(masters.values()), self._configs)
        wire = self._brokers.wire(group)
        found = [_settings(group, name, table[wire]) for name, table in zip(masters, tables, strict=True) if wire in table]
        if not found:
            raise NotFoundError(f"No broker knows a group '{group}'.")
        return found

    async def _configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        answer = await self._brokers.session.request_ok(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return self._brokers.read(answer, SubscriptionGroupWrapper).subscription_group_table

    async def members(self, group: str) -> GroupMembers:
        """Its consumers that are connected now. None is an answer too."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=self._brokers.wire(group))
        answers = await self._each(
            await self._brokers.masters(),
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            header,
            fine=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        members: dict[str, GroupMember] = {}
        subscriptions: dict[str, str] = {}
        is_broadcasting, start = None, None
        for answer in answers:
            told = self._brokers.read(answer, ConsumerConnection)
            members |= {one.client_id: GroupMember(**_client(one)) for one in told.connection_set}
            subscriptions |= {self._brokers.user(topic): one.sub_string or "*" for topic, one in told.subscription_table.items()}
            is_broadcasting = told.message_model is MessageModel.BROADCASTING if told.message_model else is_broadcasting
            start = told.consume_from_where.value if told.consume_from_where else start
        return GroupMembers(
            group=group,
            members=[members[client_id] for client_id in sorted(members)],
            subscriptions=dict(sorted(subscriptions.items())),
            is_broadcasting=is_broadcasting,
            start=start,
        )

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """How far it is in each queue, of one topic or of all that it has offsets in, its retry topic included."""
        if topic is not None:
            addresses = await self._brokers.of_topic(topic)
        else:
            addresses = await self._brokers.masters()
        wire = None if topic is None else self._brokers.wire(topic)
        header = GetConsumeStatsRequestHeader(consumer_group=self._brokers.wire(group), topic=wire)
        answers = await self._each(addresses, RequestCode.GET_CONSUME_STATS, header)
        stats = [self._brokers.read(answer, ConsumeStats) for answer in answers]
        queues = [
            QueueProgress(
                topic=self._brokers.user(queue.topic),
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                committed_offset=max(0, row.consumer_offset),
                end_offset=row.broker_offset,
                pulled_offset=max(0, row.pull_offset),
                lag=max(0, row.broker_offset - max(0, row.consumer_offset)),
                consumed_ms=max(0, row.last_timestamp),
            )
            for one in stats
            for queue, row in one.offset_table.items()
        ]
        queues.sort(key=lambda row: row.queue)
        rate = sum(one.consume_tps for one in stats)
        return GroupProgress(group=group, lag=sum(row.lag for row in queues), rate=rate, queues=queues)

    async def topics(self, group: str) -> list[str]:
        """Those in which it has offsets."""
        header = QueryTopicsByConsumerRequestHeader(group=self._brokers.wire(group))
        answers = await self._each(await self._brokers.masters(), RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        found = {topic for answer in answers for topic in self._brokers.read(answer, TopicList).topic_list}
        return sorted(self._brokers.user(topic) for topic in found)

    async def producers(self, group: str | None = None) -> list[ProducerClient]:
        """Producers that are connected now: of one group, or of all."""
        masters = await self._brokers.masters()
        found: dict[tuple[str, str], ProducerClient] = {}
        if group is None:
            for answer in await self._each(masters, RequestCode.GET_ALL_PRODUCER_INFO, None):
                for wire, clients in (self._brokers.read(answer, ProducerTableInfo).data or {}).items():
                    for one in clients:
                        client = Connection(
                            client_id=one.client_id, client_addr=one.remote_ip, language=one.language, version=one.version
                        )
                        found[wire, one.client_id] = ProducerClient(group=self._brokers.user(wire), **_client(client))
        else:
            header = GetProducerConnectionListRequestHeader(producer_group=self._brokers.wire(group))
            answers = await self._each(
                masters, RequestCode.GET_PRODUCER_CONNECTION_LIST, header, fine=(ResponseCode.SYSTEM_ERROR,)
            )
            for answer in answers:  # a broker that has none of the group says SYSTEM_ERROR
                for client in self._brokers.read(answer, ProducerConnection).connection_set:
                    found[group, client.client_id] = ProducerClient(group=group, **_client(client))
        return [found[key] for key in sorted(found)]

    async def _each(
        self, addresses: Mapping[str, str], code: int, header: Header | None, *, fine: tuple[int, ...] = ()
    ) -> list[Command]:
        """The answers of those who gave one; a no that is `fine` is left out."""

        async def ask(address: str) -> Command | None:
            try:
                return await self._brokers.session.request_ok(address, code, header)
            except BrokerError as error:
                if error.code in fine:
                    return None
                raise

        answers = await self._brokers.each(list(addresses.values()), ask)
        return [answer for answer in answers if answer is not None]


def _client(connection: Connection) -> dict[str, str]:
    return {
        "client_id": connection.client_id,
        "address": (connection.client_addr or "").removeprefix("/"),
        "language": connection.language.value if connection.language else "",
        "version": version_text(connection.version),
    }


def _settings(group: str, broker_name: str, config: SubscriptionGroupConfig) -> GroupSettings:
    return GroupSettings(
        group=group,
        broker_name=broker_name,
        is_enabled=config.consume_enable,
        may_broadcast=config.consume_broadcast_enable,
        is_orderly=config.consume_message_orderly,
        retries_max=config.retry_max_times,
        retry_queues=config.retry_queue_nums,
        attributes=dict(config.attributes),
    )

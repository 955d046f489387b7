"""Administration of consumer groups: their settings, members and progress, and the members of producer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import (
    ConsumerClient,
    GroupMembers,
    GroupProgress,
    GroupSettings,
    MemberQueue,
    MemberRates,
    MemberState,
    ProducerClient,
    QueueProgress,
)
from skyrocket.client.consumer.subscription import TAG
from skyrocket.client.errors import BrokerError, NotFoundError
from skyrocket.client.queues import Queue
from skyrocket.client.session.names import check_group
from skyrocket.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatus,
    MessageModel,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionData,
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
    GetConsumerRunningInfoRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import SYSTEM_GROUPS, dead_letter_topic, is_system_name, retry_topic
from skyrocket.protocol.versions import version_text


class GroupAdmin:
    """Consumer and producer groups."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # --- change

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
        """Create a group at all masters, or at those of `cluster` or `brokers`. An existing group is changed; None keeps a value.

        `enabled`: the group may consume. `broadcast`: its consumers may broadcast. `orderly`: they consume in order.
        `retries_max`: how often a message is retried before it becomes a dead letter.
        """
        check_group(group)
        given: dict[str, bool | int | None] = {
            "consume_enable": enabled,
            "consume_broadcast_enable": broadcast,
            "consume_message_orderly": orderly,
            "retry_max_times": retries_max,
            "retry_queue_nums": retry_queues,
        }
        changes = {field: value for field, value in given.items() if value is not None}
        masters = await self._brokers.masters(cluster, brokers)
        return await self._brokers.for_each(
            list(masters), lambda name: self._update(group, name, masters[name], changes, attributes or {})
        )

    async def _update(
        self, group: str, name: str, address: str, changes: Mapping[str, bool | int], attributes: Mapping[str, str | None]
    ) -> GroupSettings:
        wire_group = self._brokers.to_wire(group)
        config = (await self._fetch_configs(address)).get(wire_group) or SubscriptionGroupConfig(group_name=wire_group)
        kept = dict(config.attributes)
        for field, value in changes.items():
            setattr(config, field, value)
        config.attributes = {f"-{key}" if value is None else f"+{key}": value or "" for key, value in attributes.items()}
        body = encode(config)
        await self._brokers.session.request_ok(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        config.attributes = {key: value for key, value in {**kept, **attributes}.items() if value is not None}
        return _settings(group, name, config)

    async def delete(self, group: str, *, offsets: bool = True, topics: bool = False) -> None:
        """Delete a group at all masters, with its offsets, and with `topics` also its retry and dead-letter topics.

        Raises NotFoundError if no broker has the group.
        """
        known = await self.get(group)
        masters = await self._brokers.masters()
        wire_group = self._brokers.to_wire(group)
        header = DeleteSubscriptionGroupRequestHeader(group_name=wire_group, clean_offset=offsets)
        with_group = {one.broker_name: masters[one.broker_name] for one in known if one.broker_name in masters}
        # Only where the group exists: Apache's other brokers would create it now.
        await self._request_each(with_group, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        for topic in (retry_topic(wire_group), dead_letter_topic(wire_group)) if topics else ():
            await self._request_each(masters, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))
            from_nameservers = DeleteTopicFromNamesrvRequestHeader(topic=topic)
            await self._brokers.request_all_nameservers(RequestCode.DELETE_TOPIC_IN_NAMESRV, from_nameservers)

    # --- query

    async def names(self, *, internal: bool = False) -> list[str]:
        """List the names of all groups, sorted. System groups only with `internal`."""
        masters = await self._brokers.masters()
        tables = await self._brokers.for_each(list(masters.values()), self._fetch_configs)
        found = {name for table in tables for name in table if self._brokers.is_in_namespace(name)}
        if not internal:
            found = {name for name in found if name not in SYSTEM_GROUPS and not is_system_name(name)}
        return sorted(self._brokers.to_user(name) for name in found)

    async def get(self, group: str) -> list[GroupSettings]:
        """Fetch the settings of a group at each broker. Raises NotFoundError if no broker has the group."""
        masters = await self._brokers.masters()
        tables = await self._brokers.for_each(list(masters.values()), self._fetch_configs)
        wire_group = self._brokers.to_wire(group)
        found = [
            _settings(group, name, table[wire_group]) for name, table in zip(masters, tables, strict=True) if wire_group in table
        ]
        if not found:
            raise NotFoundError(f"Group '{group}' does not exist at any broker. Create it with: skyrocket group create {group}")
        return found

    async def _fetch_configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        answer = await self._brokers.session.request_ok(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return self._brokers.decode_body(answer, SubscriptionGroupWrapper).subscription_group_table

    async def members(self, group: str) -> GroupMembers:
        """Fetch the consumers of a group that are connected now. There may be none."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=self._brokers.to_wire(group))
        answers = await self._request_each(
            await self._brokers.masters(),
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            header,
            accepted_codes=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        members: dict[str, ConsumerClient] = {}
        subscriptions: dict[str, str] = {}
        types: dict[str, str] = {}
        is_broadcasting, start = None, None
        for answer in answers:
            connection = self._brokers.decode_body(answer, ConsumerConnection)
            members |= {one.client_id: ConsumerClient(**_client_fields(one)) for one in connection.connection_set}
            subscriptions |= {
                self._brokers.to_user(topic): one.sub_string or "*" for topic, one in connection.subscription_table.items()
            }
            types |= {self._brokers.to_user(topic): _type_of(one) for topic, one in connection.subscription_table.items()}
            is_broadcasting = (
                connection.message_model is MessageModel.BROADCASTING if connection.message_model else is_broadcasting
            )
            start = connection.consume_from_where.value if connection.consume_from_where else start
        return GroupMembers(
            group=group,
            members=[members[client_id] for client_id in sorted(members)],
            subscriptions=dict(sorted(subscriptions.items())),
            is_broadcasting=is_broadcasting,
            start=start,
            subscription_types=dict(sorted(types.items())),
        )

    async def member_state(self, group: str, client_id: str, *, stack: bool = False) -> MemberState:
        """Ask a connected consumer, through a broker, for its subscriptions and queues; with `stack` also what its threads do.

        Raises NotFoundError if no broker reaches it.
        A consumer that hangs does not answer: TimedOutError, or BrokerError.
        """
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=self._brokers.to_wire(group), client_id=client_id, jstack_enable=stack
        )
        unreached = (ResponseCode.SYSTEM_ERROR, ResponseCode.CONSUMER_NOT_ONLINE)  # by brokers without a connection to it
        masters = await self._brokers.masters()
        answers = await self._request_each(masters, RequestCode.GET_CONSUMER_RUNNING_INFO, header, accepted_codes=unreached)
        if not answers:
            raise NotFoundError(f"No broker reaches consumer '{client_id}' of group '{group}'.")
        info = self._brokers.decode_body(answers[0], ConsumerRunningInfo)
        to_user = self._brokers.to_user
        queues = [
            MemberQueue(
                topic=to_user(queue.topic),
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                committed_offset=row.commit_offset,
                cached_messages=row.cached_msg_count,
                pulled_ms=row.last_pull_timestamp,
                consumed_ms=row.last_consume_timestamp,
            )
            for queue, row in sorted(info.mq_table.items(), key=lambda item: Queue.of(item[0]))
            if not row.dropped
        ]
        subscriptions = {to_user(one.topic or ""): one.sub_string or "*" for one in info.subscription_set}
        model = info.properties.get("messageModel")
        return MemberState(
            group=group,
            client_id=client_id,
            subscriptions=dict(sorted(subscriptions.items())),
            queues=queues,
            subscription_types={to_user(one.topic or ""): _type_of(one) for one in info.subscription_set},
            is_broadcasting=None if model is None else model == MessageModel.BROADCASTING.value,
            rates={to_user(topic): _rates_of(row) for topic, row in sorted(info.status_table.items())},
            properties=dict(sorted(info.properties.items())),
            stack=info.jstack or "",
        )

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Fetch offsets and lag of a group in each queue, of one topic or of all topics in which it has offsets."""
        if topic is not None:
            addresses = await self._brokers.addresses_of_topic(topic)
        else:
            addresses = await self._brokers.masters()
        wire_topic = None if topic is None else self._brokers.to_wire(topic)
        header = GetConsumeStatsRequestHeader(consumer_group=self._brokers.to_wire(group), topic=wire_topic)
        answers = await self._request_each(addresses, RequestCode.GET_CONSUME_STATS, header)
        stats = [self._brokers.decode_body(answer, ConsumeStats) for answer in answers]
        queues = [
            QueueProgress(
                topic=self._brokers.to_user(queue.topic),
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
        """List the topics in which a group has offsets."""
        header = QueryTopicsByConsumerRequestHeader(group=self._brokers.to_wire(group))
        answers = await self._request_each(await self._brokers.masters(), RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        found = {topic for answer in answers for topic in self._brokers.decode_body(answer, TopicList).topic_list}
        return sorted(self._brokers.to_user(topic) for topic in found)

    async def producers(self, group: str | None = None) -> list[ProducerClient]:
        """Fetch the producers that are connected now, of one group or of all."""
        masters = await self._brokers.masters()
        found: dict[tuple[str, str], ProducerClient] = {}
        if group is None:
            for answer in await self._request_each(masters, RequestCode.GET_ALL_PRODUCER_INFO, None):
                for wire_group, clients in (self._brokers.decode_body(answer, ProducerTableInfo).data or {}).items():
                    for one in clients:
                        client = Connection(
                            client_id=one.client_id, client_addr=one.remote_ip, language=one.language, version=one.version
                        )
                        found[wire_group, one.client_id] = ProducerClient(
                            group=self._brokers.to_user(wire_group), **_client_fields(client)
                        )
        else:
            header = GetProducerConnectionListRequestHeader(producer_group=self._brokers.to_wire(group))
            answers = await self._request_each(
                masters, RequestCode.GET_PRODUCER_CONNECTION_LIST, header, accepted_codes=(ResponseCode.SYSTEM_ERROR,)
            )
            for answer in answers:  # a broker without producers of the group answers SYSTEM_ERROR
                for client in self._brokers.decode_body(answer, ProducerConnection).connection_set:
                    found[group, client.client_id] = ProducerClient(group=group, **_client_fields(client))
        return [found[key] for key in sorted(found)]

    async def _request_each(
        self, addresses: Mapping[str, str], code: int, header: Header | None, *, accepted_codes: tuple[int, ...] = ()
    ) -> list[Command]:
        """Send a request to all addresses. A response with one of `accepted_codes` is no error, and is left out."""

        async def ask(address: str) -> Command | None:
            try:
                return await self._brokers.session.request_ok(address, code, header)
            except BrokerError as error:
                if error.code in accepted_codes:
                    return None
                raise

        answers = await self._brokers.for_each(list(addresses.values()), ask)
        return [answer for answer in answers if answer is not None]


def _client_fields(connection: Connection) -> dict[str, str]:
    return {
        "client_id": connection.client_id,
        "address": (connection.client_addr or "").removeprefix("/"),
        "language": connection.language.value if connection.language else "",
        "version": version_text(connection.version),
    }


def _rates_of(row: ConsumeStatus) -> MemberRates:
    return MemberRates(
        pull_ms=row.pull_rt,
        pulled_rate=row.pull_tps,
        handling_ms=row.consume_rt,
        consumed_rate=row.consume_ok_tps,
        failed_rate=row.consume_failed_tps,
        failed=row.consume_failed_msgs,
    )


def _type_of(subscription: SubscriptionData) -> str:
    """Return TAG or SQL92. Clients before 4.2 knew only tags, and send no type."""
    return subscription.expression_type or TAG


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


def find_holders(states: Mapping[str, MemberState]) -> dict[Queue, str]:
    """Return which member holds each queue. Two holders, as during a rebalance, are both named."""
    holders: dict[Queue, list[str]] = {}
    for client_id, state in sorted(states.items()):
        for row in state.queues:
            holders.setdefault(row.queue, []).append(client_id)
    return {queue: ", ".join(ids) for queue, ids in holders.items()}

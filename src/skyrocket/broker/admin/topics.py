"""Topics: create and change (17, 18), delete (215), list (21, 305), describe (202, 351), find consumer groups (300), and clean up
after removed topics and messages (306, 316).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from skyrocket.broker.admin.queue_offsets import bounds, stored_at
from skyrocket.broker.admin.slices import encode_map
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.names import name_problem
from skyrocket.broker.tables.attributes import parse_changes
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import (
    CreateTopicListRequestBody,
    DataVersion,
    GroupList,
    MessageQueue,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicFilterType,
    TopicList,
    TopicOffset,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode_request, encode
from skyrocket.protocol.headers import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import DiskFullError


class TopicHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._topics = context.topics
        self._saver = context.saver
        self._offsets = context.offsets
        self._clients = context.clients
        self._store = context.store
        self._settings = context.settings
        self._counters = context.counters
        self._settle_registrations = context.settle_registrations
        # There are no static topics, so the version of their queue mapping never changes.
        self._mapping_version = DataVersion(timestamp=context.topics.version.timestamp)

    def register(self, router: Router) -> None:
        router.add(RequestCode.UPDATE_AND_CREATE_TOPIC, self.put)
        router.add(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, self.put_list)
        router.add(RequestCode.DELETE_TOPIC_IN_BROKER, self.delete)
        router.add(RequestCode.GET_ALL_TOPIC_CONFIG, self.all_configs)
        router.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.system_topics)
        router.add(RequestCode.GET_TOPIC_STATS_INFO, self.stats)
        router.add(RequestCode.GET_TOPIC_CONFIG, self.config)
        router.add(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, self.consumed_by)
        router.add(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_queues)
        router.add(RequestCode.CLEAN_UNUSED_TOPIC, self.clean_topics)

    # --- changes

    async def put(self, command: Command, _connection: Connection) -> Command:
        """Create or change a topic, and answer when that is on disk."""
        header = command.header(CreateTopicRequestHeader)
        if header.topic_filter_type not in TopicFilterType.__members__:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"There is no filter type '{header.topic_filter_type[:64]}'.")
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=TopicFilterType[header.topic_filter_type],
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=parse_changes(header.attributes),
        )
        self._topics.stage_put([config])
        await self._saver.wait_until_saved()
        return command.response(ResponseCode.SUCCESS)

    async def put_list(self, command: Command, _connection: Connection) -> Command:
        """Create or change all topics, or none. Unlike in Apache's broker, an unchanged topic does not stop the others."""
        wanted = decode_request(command.body, CreateTopicListRequestBody).topic_config_list if command.body else None
        if wanted is None:
            raise BodyError("A request to make topics has no list of them.")
        self._topics.stage_put(wanted)
        await self._saver.wait_until_saved()
        return command.response(ResponseCode.SUCCESS)

    async def delete(self, command: Command, _connection: Connection) -> Command:
        """Delete a topic, and answer when that is on disk and no registration under way names it any more.

        The administrator deletes the topic's route at the nameservers next, and a late registration would bring it back.
        """
        topic = command.header(DeleteTopicRequestHeader).topic
        if not topic.strip():
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "The topic's name is empty.")
        if self._store.only_reads is not None:  # before the table changes: its file may already have room
            raise DiskFullError(f"The disk is full: topic '{topic[:160]}' cannot be deleted now. {self._store.only_reads}")
        is_known = self._topics.stage_delete(topic)
        await self._saver.wait_until_saved()
        self._offsets.remove_topic(topic)
        if is_known or name_problem(topic) is None:  # an invalid name never became a path
            await asyncio.to_thread(self._store.delete_topic(topic))
        await self._settle_registrations()
        return command.response(ResponseCode.SUCCESS)

    # --- clean-up

    async def clean_queues(self, command: Command, _connection: Connection) -> Command:
        """Remove queue entries whose messages are no longer in the log."""
        self._store.retention.finish_queue_cleanup(await asyncio.to_thread(self._store.retention.begin_queue_cleanup()))
        await asyncio.to_thread(self._store.expired_files.remove_all)
        return command.response(ResponseCode.SUCCESS)

    async def clean_topics(self, command: Command, _connection: Connection) -> Command:
        """Remove the queues of topics that are not in the table."""
        for topic in sorted({key.topic for key, _ in self._store.queues}):
            if topic not in self._topics and not self._topics.is_system(topic):
                await asyncio.to_thread(self._store.delete_topic(topic))
        return command.response(ResponseCode.SUCCESS)

    # --- queries

    def all_configs(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetAllTopicConfigRequestHeader)
        body = TopicConfigAndMappingSerializeWrapper(
            topic_config_table=dict(self._topics.configs),
            data_version=self._topics.version,
            mapping_data_version=self._mapping_version,
        )
        if (header.data_version, header.topic_seq, header.max_topic_num) != (None, None, None):
            names = self._topics.page(header.data_version, header.topic_seq, header.max_topic_num)
            body.topic_config_table = {name: self._topics.configs[name] for name in names}
        count = GetAllTopicConfigResponseHeader(total_topic_num=len(self._topics))
        return command.response(ResponseCode.SUCCESS, count, body=encode(body))

    def config(self, command: Command, _connection: Connection) -> Command:
        config = self._topics.require(command.header(GetTopicConfigRequestHeader).topic)
        return command.response(ResponseCode.SUCCESS, body=encode(_without_mapping(config)))

    def system_topics(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=encode(TopicList(topic_list=sorted(self._topics.system_names))))

    async def stats(self, command: Command, _connection: Connection) -> Command:
        config = self._topics.require(command.header(GetTopicStatsInfoRequestHeader).topic)
        table = await encode_map(self._offset_rows(config.topic_name, max(config.read_queue_nums, config.write_queue_nums)))
        tps = encode(self._counters.topic_put(config.topic_name))
        return command.response(ResponseCode.SUCCESS, body=b'{"offsetTable":' + table + b',"topicPutTps":' + tps + b"}")

    def _offset_rows(self, topic: str, queues: int) -> Iterator[tuple[MessageQueue, TopicOffset]]:
        for queue_id in range(queues):
            least, most = bounds(self._store, topic, queue_id)
            last = stored_at(self._store, topic, queue_id, most - 1) if most else 0
            queue = MessageQueue(topic, self._settings().broker_name, queue_id)
            yield queue, TopicOffset(min_offset=least, max_offset=most, last_update_timestamp=last)

    def consumed_by(self, command: Command, _connection: Connection) -> Command:
        topic = command.header(QueryTopicConsumeByWhoRequestHeader).topic
        groups = dict.fromkeys([*self._clients.subscribers_of(topic), *self._offsets.groups_of(topic)])
        return command.response(ResponseCode.SUCCESS, body=encode(GroupList(group_list=list(groups))))


def _without_mapping(config: TopicConfig) -> TopicConfigAndQueueMapping:
    """Return a topic's settings in the body of 351, which has further fields for static topics."""
    return TopicConfigAndQueueMapping(
        topic_name=config.topic_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=config.attributes,
    )

"""Offsets: of a group in a queue (14 query, 15 update, 43 all, 314 clone), and of a queue itself (29 by time, 30 maximum, 31
minimum, 32 time of the first message).
"""

from __future__ import annotations

from skyrocket.broker.admin.queue_offsets import bounds, stored_at
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.limits import QUEUES_PER_TOPIC_MAX
from skyrocket.broker.tables.subscription_groups import group_problem
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import (
    BoundaryType,
    CloneGroupOffsetRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class OffsetHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._offsets = context.offsets
        self._topics = context.topics
        self._groups = context.groups
        self._clients = context.clients
        self._store = context.store

    def register(self, router: Router) -> None:
        router.add(RequestCode.QUERY_CONSUMER_OFFSET, self.query)
        router.add(RequestCode.UPDATE_CONSUMER_OFFSET, self.update)
        router.add(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search_by_time)
        router.add(RequestCode.GET_MAX_OFFSET, self.max_offset)
        router.add(RequestCode.GET_MIN_OFFSET, self.min_offset)
        router.add(RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest_time)
        router.add(RequestCode.GET_ALL_CONSUMER_OFFSET, self.all_offsets)
        router.add(RequestCode.CLONE_GROUP_OFFSET, self.clone)

    # --- offsets of a group

    def query(self, command: Command, _connection: Connection) -> Command:
        """Return the committed offset. A new group starts at 0 if that skips nothing; else the client decides where."""
        header = command.header(QueryConsumerOffsetRequestHeader)
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset < 0:
            if header.set_zero_if_not_found is False or not self._starts_at_zero(header.topic, header.queue_id):
                raise RefusedError(
                    ResponseCode.QUERY_NOT_FOUND, f"Group '{header.consumer_group[:160]}' has no offset in this queue yet."
                )
            offset = 0
        return command.response(ResponseCode.SUCCESS, QueryConsumerOffsetResponseHeader(offset=offset))

    def _starts_at_zero(self, topic: str, queue_id: int) -> bool:
        """Whether the queue has its first message, or never had one.

        Apache's broker answers for an empty queue that it has no offset. The client then asks for the queue's end, and misses
        what was sent in between. The end of an empty queue is 0, so the answer 0 changes nothing else.
        """
        queue = self._store.queues.get(topic, queue_id)
        if queue is None or not queue.max_offset:
            config = self._topics.get(topic)
            return config is not None and 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums)
        entry = None if queue.min_offset > 0 else queue.entry(0)
        return entry is not None and self._store.log.view(entry.physical_offset, entry.size) is not None

    def update(self, command: Command, _connection: Connection) -> Command:
        header = command.header(UpdateConsumerOffsetRequestHeader)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        self._groups.require(group)
        self._topics.require(topic)
        # The bound is not the topic's number of queues: a queue that was removed may still be consumed to its end.
        if not 0 <= queue_id < QUEUES_PER_TOPIC_MAX:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"There is no queue {queue_id}.")
        if not self._offsets.commit(group, topic, queue_id, header.commit_offset):
            return command.response(ResponseCode.SUCCESS, remark="The offset was reset meanwhile: this one is not kept.")
        return command.response(ResponseCode.SUCCESS)

    def all_offsets(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=encode(self._offsets.for_slaves()))

    def clone(self, command: Command, _connection: Connection) -> Command:
        """Copy a group's offsets to another group, in one topic or in all topics of the source group."""
        header = command.header(CloneGroupOffsetRequestHeader)
        if problem := group_problem(header.dest_group):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"The group's name {problem}: '{header.dest_group[:160]}'.")
        source = header.src_group
        topics = [header.topic] if header.topic else self._offsets.topics_of(source)
        for topic in topics:
            if topic in self._topics and (header.offline or not self._clients.lacks_subscription(source, topic)):
                self._offsets.clone(source, header.dest_group, topic)
        return command.response(ResponseCode.SUCCESS)

    # --- offsets of a queue

    def search_by_time(self, command: Command, _connection: Connection) -> Command:
        header = command.header(SearchOffsetRequestHeader)
        upper = header.boundary_type is BoundaryType.UPPER
        offset = self._store.reading.offset_by_time(header.topic, header.queue_id, header.timestamp, upper=upper)
        return command.response(ResponseCode.SUCCESS, SearchOffsetResponseHeader(offset=offset))

    def max_offset(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetMaxOffsetRequestHeader)
        offset = bounds(self._store, header.topic, header.queue_id).most
        return command.response(ResponseCode.SUCCESS, GetMaxOffsetResponseHeader(offset=offset))

    def min_offset(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetMinOffsetRequestHeader)
        offset = bounds(self._store, header.topic, header.queue_id).least
        return command.response(ResponseCode.SUCCESS, GetMinOffsetResponseHeader(offset=offset))

    def earliest_time(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetEarliestMsgStoretimeRequestHeader)
        least = bounds(self._store, header.topic, header.queue_id).least
        timestamp = stored_at(self._store, header.topic, header.queue_id, least)
        return command.response(ResponseCode.SUCCESS, GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))

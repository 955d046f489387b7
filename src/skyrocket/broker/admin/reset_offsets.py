"""Reset a group's offsets to a time or an offset: 222.

The broker resets the offsets itself, as Apache's does since 5.0 (`useServerSideResetOffset`). The new offsets count at once, and
are on disk before the answer: a drain relies on it. (Apache's broker forgets them if it is killed before its next save.)
The next pull of each queue is answered with the offset to continue from. The group's consumers need not be connected.
"""

from __future__ import annotations

from skyrocket.broker.admin.queue_offsets import bounds, offset_at
from skyrocket.broker.context import BrokerContext
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import MessageQueue, ResetOffsetBody, TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ResetOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class ResetOffsetHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._offsets = context.offsets
        self._offsets_saved = context.offsets_saved
        self._topics = context.topics
        self._groups = context.groups
        self._store = context.store
        self._settings = context.settings

    def register(self, router: Router) -> None:
        router.add(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset)

    async def reset(self, command: Command, _connection: Connection) -> Command:
        header = command.header(ResetOffsetRequestHeader)
        topic = self._topics.require(header.topic)
        self._groups.require(header.group)
        offsets = self._new_offsets(header, topic)
        for queue_id, offset in offsets.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        await self._offsets_saved()
        name = self._settings().broker_name
        table = {MessageQueue(header.topic, name, queue_id): offset for queue_id, offset in offsets.items()}
        return command.response(ResponseCode.SUCCESS, body=encode(ResetOffsetBody(offset_table=table)))

    def _new_offsets(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> dict[int, int]:
        """Map each queue to its new offset: all queues, or the one that the request names."""
        if header.queue_id >= 0:
            return {header.queue_id: self._new_offset(header, topic)}
        if not topic.read_queue_nums:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"Topic '{header.topic}' has no queues to read from.")
        return {i: offset_at(self._store, header.topic, i, header.timestamp) for i in range(topic.read_queue_nums)}

    def _new_offset(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> int:
        queues = max(topic.read_queue_nums, topic.write_queue_nums)
        if header.queue_id >= queues:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, f"Topic '{header.topic}' has {queues} queues; there is no queue {header.queue_id}."
            )
        if header.offset is None or header.offset == -1:
            return offset_at(self._store, header.topic, header.queue_id, header.timestamp)
        least, most = bounds(self._store, header.topic, header.queue_id)
        if not least <= header.offset <= most + 1:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"Offset {header.offset} is outside of the queue's offsets, which are {least} to {most}.",
            )
        return header.offset

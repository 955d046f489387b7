"""An administrator moves a group to a moment or an offset: 222.

Two ways, as in Apache's broker:

    server side     the new offsets count here at once; each queue's next pull is told to go on there. Members need not be there.
    client side     the members are told (220) and move; what they commit then counts. For clients that do not ask us again.
"""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.broker.admin.queue_facts import bounds, offset_at
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.clients import ClientTable
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import MessageQueue, MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC, TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ResetOffsetRequestHeader
from skyrocket.protocol.language import Language
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.message_store import MessageStore


class ResetHandlers:
    def __init__(
        self,
        offsets: ConsumerOffsets,
        topics: TopicTable,
        groups: SubscriptionGroupTable,
        clients: ClientTable[Connection],
        store: MessageStore,
        settings: Callable[[], BrokerSettings],
        *,
        server_side: bool = True,
    ) -> None:
        """`server_side` is Apache's useServerSideResetOffset, which is on since 5.0."""
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._store = store
        self._settings = settings
        self._server_side = server_side

    def register(self, router: Router) -> None:
        router.add(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset)

    def reset(self, command: Command, _connection: Connection) -> Command:
        header = command.header(ResetOffsetRequestHeader)
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"Topic '{header.topic[:160]}' does not exist.")
        offsets = self._reset_here(header, topic) if self._server_side else self._reset_clients(header, topic)
        name = self._settings().broker_name
        table = {MessageQueue(header.topic, name, queue_id): offset for queue_id, offset in offsets.items()}
        return command.response(ResponseCode.SUCCESS, body=encode(ResetOffsetBody(offset_table=table)))

    # --- server side

    def _reset_here(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> dict[int, int]:
        if header.group not in self._groups:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"There is no group '{header.group[:160]}'.")
        if header.queue_id < 0:
            wanted = {i: offset_at(self._store, header.topic, i, header.timestamp) for i in range(topic.read_queue_nums)}
        else:
            wanted = {header.queue_id: self._one(header, topic)}
        if not wanted:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"Topic '{header.topic}' has no queues to read from.")
        for queue_id, offset in wanted.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        return wanted

    def _one(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> int:
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

    # --- client side

    def _reset_clients(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> dict[int, int]:
        wanted = {queue_id: self._moved(header, queue_id) for queue_id in range(topic.write_queue_nums)}
        group = self._clients.group(header.group)
        if group is None:
            raise RefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"Group '{header.group[:160]}' has no consumer here that could be told."
            )
        told = ResetOffsetRequestHeader(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
        ).to_fields()
        bodies = {is_cpp: self._notice(header.topic, wanted, is_cpp=is_cpp) for is_cpp in (False, True)}
        for member in group.members.values():
            body = bodies[member.language is Language.CPP]
            member.connection.oneway(Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=dict(told), body=body))
        return wanted

    def _moved(self, header: ResetOffsetRequestHeader, queue_id: int) -> int:
        """Only by force ahead."""
        consumed = self._offsets.query(header.group, header.topic, queue_id)
        if consumed < 0:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, f"Group '{header.group[:160]}' has no offset in queue {queue_id} of '{header.topic}'."
            )
        wanted = max(0, offset_at(self._store, header.topic, queue_id, header.timestamp))
        return wanted if header.is_force else min(wanted, consumed)

    def _notice(self, topic: str, offsets: dict[int, int], *, is_cpp: bool) -> bytes:
        name = self._settings().broker_name
        if is_cpp:
            flat = [
                MessageQueueForC(topic=topic, broker_name=name, queue_id=queue_id, offset=offset)
                for queue_id, offset in offsets.items()
            ]
            return encode(ResetOffsetBodyForC(offset_table=flat))
        table = {MessageQueue(topic, name, queue_id): offset for queue_id, offset in offsets.items()}
        return encode(ResetOffsetBody(offset_table=table))

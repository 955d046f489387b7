"""Administration of consumer offsets: read, reset, set and clone them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import QueueOffset
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import Start, to_epoch_ms
from skyrocket.client.errors import BrokerError, ConfigurationError
from skyrocket.client.queues import Queue
from skyrocket.client.session.names import check_group
from skyrocket.protocol.bodies import ResetOffsetBody
from skyrocket.protocol.headers import CloneGroupOffsetRequestHeader, ResetOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

_END_TIMESTAMP = -1  # brokers take it for a time after all messages


class OffsetAdmin:
    """Committed offsets of groups."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def get(self, group: str, topic: str) -> list[QueueOffset]:
        """Fetch the group's offset in each queue of a topic. The offset is None if the group has none."""
        route = await self._brokers.route(topic)
        offset_requests = QueueOffsets(self._brokers.session, self._brokers.to_wire(group))
        offsets = await self._brokers.for_each(route.to_read, offset_requests.committed_offset)
        return [self._row(group, queue, offset) for queue, offset in zip(route.to_read, offsets, strict=True)]

    async def at(self, topic: str, moment: Start) -> dict[Queue, int]:
        """Fetch the offset in each queue: of the first message stored at `moment` or later, or "first", or "last"."""
        route = await self._brokers.route(topic)
        offset_requests = QueueOffsets(self._brokers.session, "")
        if moment == "first":
            offsets = await self._brokers.for_each(route.to_read, offset_requests.min_offset)
        elif moment == "last":
            offsets = await self._brokers.for_each(route.to_read, offset_requests.max_offset)
        else:
            at_ms = to_epoch_ms(moment)
            offsets = await self._brokers.for_each(route.to_read, lambda queue: offset_requests.offset_at(queue, at_ms))
        return {self._to_user(queue): offset for queue, offset in zip(route.to_read, offsets, strict=True)}

    # --- change

    async def reset(self, group: str, topic: str, to: Start) -> list[QueueOffset]:
        """Reset a group to "first", "last" or a time in every queue of a topic, whether it has connected members or not.

        Connected members learn it with their next pull. They may still finish messages that are with their handlers.
        """
        addresses = await self._brokers.addresses_of_topic(topic)
        at_ms = {"first": 0, "last": _END_TIMESTAMP}[to] if isinstance(to, str) and to in ("first", "last") else to_epoch_ms(to)
        header = ResetOffsetRequestHeader(
            group=self._brokers.to_wire(check_group(group)), topic=self._brokers.to_wire(topic), timestamp=at_ms, is_force=True
        )
        try:
            answers = await self._brokers.for_each(
                list(addresses.values()),
                lambda address: self._brokers.session.request_ok(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header),
            )
        except BrokerError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            return await self._commit(group, await self.at(topic, to))  # a broker before 5.0 resets only connected members
        rows = [
            self._row(group, Queue.of(queue), offset)
            for answer in answers
            for queue, offset in self._brokers.decode_body(answer, ResetOffsetBody).offset_table.items()
        ]
        return sorted(rows, key=lambda row: row.queue)

    async def set(self, group: str, offsets: Mapping[Queue, int]) -> list[QueueOffset]:
        """Set the offsets of a group in some queues, whether it has connected members or not."""
        check_group(group)
        for queue, offset in offsets.items():
            if offset < 0:
                raise ConfigurationError(f"The offset of {queue} must not be negative, but is {offset}.")
            await self._set(group, queue, offset)
        return [self._row(group, queue, offset) for queue, offset in sorted(offsets.items())]

    async def _set(self, group: str, queue: Queue, offset: int) -> None:
        address = await self._brokers.address_of_queue(queue)
        header = ResetOffsetRequestHeader(
            group=self._brokers.to_wire(group),
            topic=self._brokers.to_wire(queue.topic),
            queue_id=queue.queue_id,
            offset=offset,
            timestamp=_END_TIMESTAMP,
            is_force=True,
        )
        try:
            await self._brokers.session.request_ok(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except BrokerError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            await self._commit(group, {queue: offset})

    async def _commit(self, group: str, offsets: Mapping[Queue, int]) -> list[QueueOffset]:
        offset_requests = QueueOffsets(self._brokers.session, self._brokers.to_wire(group))
        await asyncio.gather(*(offset_requests.commit(self._to_wire(queue), offset) for queue, offset in offsets.items()))
        return [self._row(group, queue, offset) for queue, offset in sorted(offsets.items())]

    async def clone(self, source: str, target: str, topic: str) -> list[QueueOffset]:
        """Copy the offsets of group `source` in a topic to group `target`. Returns the offsets of `target`."""
        addresses = await self._brokers.addresses_of_topic(topic)
        header = CloneGroupOffsetRequestHeader(
            src_group=self._brokers.to_wire(source),
            dest_group=self._brokers.to_wire(check_group(target)),
            topic=self._brokers.to_wire(topic),
            offline=True,
        )
        await self._brokers.for_each(
            list(addresses.values()),
            lambda address: self._brokers.session.request_ok(address, RequestCode.CLONE_GROUP_OFFSET, header),
        )
        return await self.get(target, topic)

    # ---

    def _row(self, group: str, queue: Queue, offset: int | None) -> QueueOffset:
        return QueueOffset(
            group=group,
            topic=self._brokers.to_user(queue.topic),
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            offset=offset,
        )

    def _to_user(self, queue: Queue) -> Queue:
        return queue._replace(topic=self._brokers.to_user(queue.topic))

    def _to_wire(self, queue: Queue) -> Queue:
        return queue._replace(topic=self._brokers.to_wire(queue.topic))

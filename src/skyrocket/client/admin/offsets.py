"""Offsets, for an administrator: where groups are in queues, and moving them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import QueueOffset
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import Start, moment_ms
from skyrocket.client.errors import BrokerError, ConfigurationError
from skyrocket.client.queues import Queue
from skyrocket.client.session.names import check_group
from skyrocket.protocol.bodies import ResetOffsetBody
from skyrocket.protocol.headers import CloneGroupOffsetRequestHeader, ResetOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

_TO_THE_END = -1  # what brokers take for a moment after all messages


class Offsets:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def get(self, group: str, topic: str) -> list[QueueOffset]:
        """The group's offset in each of the topic's queues; None where it has none."""
        route = await self._brokers.route(topic)
        asking = QueueOffsets(self._brokers.session, self._brokers.wire(group))
        offsets = await self._brokers.each(route.to_read, asking.committed)
        return [self._row(group, queue, offset) for queue, offset in zip(route.to_read, offsets, strict=True)]

    async def at(self, topic: str, moment: Start) -> dict[Queue, int]:
        """The offset of the first message since then in each queue; also of "first" and "last"."""
        route = await self._brokers.route(topic)
        asking = QueueOffsets(self._brokers.session, "")
        if moment == "first":
            offsets = await self._brokers.each(route.to_read, asking.first)
        elif moment == "last":
            offsets = await self._brokers.each(route.to_read, asking.last)
        else:
            at_ms = moment_ms(moment)
            offsets = await self._brokers.each(route.to_read, lambda queue: asking.at(queue, at_ms))
        return {self._users(queue): offset for queue, offset in zip(route.to_read, offsets, strict=True)}

    # --- moving

    async def reset(self, group: str, topic: str, to: Start) -> list[QueueOffset]:
        """Move the group to "first", "last" or a moment in every queue of the topic, whether its members are there or not.

        Members that are there are told with their next pull; what they have in hand they may still finish.
        """
        addresses = await self._brokers.of_topic(topic)
        at_ms = {"first": 0, "last": _TO_THE_END}[to] if isinstance(to, str) and to in ("first", "last") else moment_ms(to)
        header = ResetOffsetRequestHeader(
            group=self._brokers.wire(check_group(group)), topic=self._brokers.wire(topic), timestamp=at_ms, is_force=True
        )
        try:
            answers = await self._brokers.each(
                list(addresses.values()),
                lambda address: self._brokers.session.request_ok(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header),
            )
        except BrokerError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            return await self._commit(group, await self.at(topic, to))  # a broker before 5.0 can only tell members that are there
        rows = [
            self._row(group, Queue.of(queue), offset)
            for answer in answers
            for queue, offset in self._brokers.read(answer, ResetOffsetBody).offset_table.items()
        ]
        return sorted(rows, key=lambda row: row.queue)

    async def set(self, group: str, offsets: Mapping[Queue, int]) -> list[QueueOffset]:
        """The same to an offset in each of some queues."""
        check_group(group)
        for queue, offset in offsets.items():
            if offset < 0:
                raise ConfigurationError(f"An offset cannot be {offset}.")
            await self._set(group, queue, offset)
        return [self._row(group, queue, offset) for queue, offset in sorted(offsets.items())]

    async def _set(self, group: str, queue: Queue, offset: int) -> None:
        address = await self._brokers.address_of(queue)
        header = ResetOffsetRequestHeader(
            group=self._brokers.wire(group),
            topic=self._brokers.wire(queue.topic),
            queue_id=queue.queue_id,
            offset=offset,
            timestamp=_TO_THE_END,
            is_force=True,
        )
        try:
            await self._brokers.session.request_ok(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except BrokerError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            await self._commit(group, {queue: offset})

    async def _commit(self, group: str, offsets: Mapping[Queue, int]) -> list[QueueOffset]:
        asking = QueueOffsets(self._brokers.session, self._brokers.wire(group))
        await asyncio.gather(*(asking.commit(self._on_wire(queue), offset) for queue, offset in offsets.items()))
        return [self._row(group, queue, offset) for queue, offset in sorted(offsets.items())]

    async def clone(self, source: str, target: str, topic: str) -> list[QueueOffset]:
        """Give a group the offsets that another has in a topic. What the target then has is returned."""
        addresses = await self._brokers.of_topic(topic)
        header = CloneGroupOffsetRequestHeader(
            src_group=self._brokers.wire(source),
            dest_group=self._brokers.wire(check_group(target)),
            topic=self._brokers.wire(topic),
            offline=True,
        )
        await self._brokers.each(
            list(addresses.values()),
            lambda address: self._brokers.session.request_ok(address, RequestCode.CLONE_GROUP_OFFSET, header),
        )
        return await self.get(target, topic)

    # ---

    def _row(self, group: str, queue: Queue, offset: int | None) -> QueueOffset:
        return QueueOffset(
            group=group,
            topic=self._brokers.user(queue.topic),
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            offset=offset,
        )

    def _users(self, queue: Queue) -> Queue:
        return queue._replace(topic=self._brokers.user(queue.topic))

    def _on_wire(self, queue: Queue) -> Queue:
        return queue._replace(topic=self._brokers.wire(queue.topic))

"""Takes a look at the groups of a cluster through the admin client: ours or Apache's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from skyrocket.client import Admin, ClientError, NoRouteError, NotFoundError
from skyrocket.client.admin import ConsumerClient, GroupProgress, QueueProgress
from skyrocket.client.queues import Queue
from skyrocket.doctor.backlog.look import ClusterLook, GroupLook, MemberLook, QueueLook
from skyrocket.doctor.bounded_requests import ask_each
from skyrocket.protocol.system_names import RETRY_PREFIX

OLDEST_QUEUES_MAX: Final = 64  # queues of a group whose oldest unread message is looked up, those with the most lag
_HOUR_MS: Final = 3_600_000


class BacklogCollector:
    """Asks one cluster again and again."""

    def __init__(self, admin: Admin, groups: Sequence[str] = (), topics: Iterable[str] = ()) -> None:
        """Without `groups` it looks at all groups; with `topics` only at these topics, and the groups' retry topics."""
        self._admin = admin
        self._groups = tuple(dict.fromkeys(groups))
        self._topics = frozenset(topics)

    async def look(self, *, keeps_going: bool = False) -> ClusterLook:
        """Take a look. A group that cannot be asked has its reason in `unanswered`.

        A group that was named raises the error instead, unless the look `keeps_going`.
        """
        names = self._groups or await self._admin.groups.names()
        unanswered: dict[str, str] = {}

        async def of_group(group: str) -> GroupLook | None:
            try:
                if self._groups:
                    await self._require_group(group)
                return await self._look_at_group(group)
            except ClientError as error:
                if self._groups and not keeps_going:
                    raise
                unanswered[group] = str(error)
                return None

        at_ms = time.time_ns() // 1_000_000
        found = [one for one in await ask_each(names, of_group) if one is not None]
        brokers = sorted({queue.queue.broker_name for group in found for queue in group.queues})
        reserved = dict(zip(brokers, await ask_each(brokers, self._fetch_reserved_ms), strict=True))
        known = {broker: kept for broker, kept in reserved.items() if kept is not None}
        return ClusterLook(at_ms, found, known, unanswered)

    async def _require_group(self, group: str) -> None:
        try:
            await self._admin.groups.get(group)
        except NotFoundError:
            if not await self._admin.groups.topics(group):
                raise

    async def _look_at_group(self, group: str) -> GroupLook:
        progress, members = await asyncio.gather(self._progress(group), self._admin.groups.members(group))
        rows = [row for row in progress.queues if self._is_wanted(row.topic)] if progress is not None else []
        firsts: dict[Queue, int] = {}
        for topic in sorted({row.topic for row in rows}):
            firsts |= await self._first_offsets(topic)
        oldest = await self._oldest_unread(rows, firsts)
        queues = [
            QueueLook(
                queue=row.queue,
                first_offset=firsts.get(row.queue, 0),
                end_offset=row.end_offset,
                committed_offset=row.committed_offset,
                oldest_unread_ms=oldest.get(row.queue, 0),
            )
            for row in rows
        ]
        seen = await ask_each(members.members, lambda member: self._look_at_member(group, member))
        return GroupLook(group, queues, seen, bool(members.is_broadcasting))

    def _is_wanted(self, topic: str) -> bool:
        return not self._topics or topic in self._topics or topic.startswith(RETRY_PREFIX)

    async def _progress(self, group: str) -> GroupProgress | None:
        """Fetch the group's progress. A group that never committed has none, and some brokers answer that with an error."""
        if not await self._admin.groups.topics(group):
            return None
        return await self._admin.groups.progress(group)

    async def _first_offsets(self, topic: str) -> dict[Queue, int]:
        try:
            return {row.queue: row.first_offset for row in (await self._admin.topics.status(topic)).queues}
        except NoRouteError:
            return {}  # deleted, while the group still has offsets in it

    async def _oldest_unread(self, rows: Sequence[QueueProgress], firsts: dict[Queue, int]) -> dict[Queue, int]:
        waiting = sorted((row for row in rows if row.lag), key=lambda row: -row.lag)[:OLDEST_QUEUES_MAX]

        async def fetch_stored_ms(row: QueueProgress) -> int:
            offset = max(row.committed_offset, firsts.get(row.queue, 0))
            try:
                return (await self._admin.messages.by_offset(row.queue, offset)).stored_ms
            except ClientError:
                return 0  # consumed or deleted meanwhile: its age is unknown

        return dict(zip([row.queue for row in waiting], await ask_each(waiting, fetch_stored_ms), strict=True))

    async def _look_at_member(self, group: str, member: ConsumerClient) -> MemberLook:
        try:
            state = await self._admin.groups.member_state(group, member.client_id)
        except ClientError as error:
            return MemberLook(member.client_id, member.address, member.language, member.version, error=str(error))
        return MemberLook(
            member.client_id,
            member.address,
            member.language,
            member.version,
            subscriptions=state.subscriptions,
            subscription_types=state.subscription_types,
            is_broadcasting=state.is_broadcasting,
            queues=frozenset(row.queue for row in state.queues),
            cached={row.queue: row.cached_messages for row in state.queues},
            positions={row.queue: row.committed_offset for row in state.queues},
        )

    async def _fetch_reserved_ms(self, broker: str) -> int | None:
        try:
            hours = (await self._admin.cluster.config(broker)).get("fileReservedTime", "")
        except ClientError:
            return None
        return int(hours) * _HOUR_MS if hours.isdigit() else None

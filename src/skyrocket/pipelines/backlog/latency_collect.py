"""Collects what a cluster tells about latency, through the admin client: the times of messages, and the message trace."""

from __future__ import annotations

from typing import Final

from skyrocket.client import Admin, ClientError
from skyrocket.doctor.backlog.look import ClusterLook
from skyrocket.doctor.bounded_requests import ask_each
from skyrocket.pipelines.backlog.latency import LatencySummary, summarize, trace_latencies
from skyrocket.protocol.message.trace import decode_trace
from skyrocket.protocol.system_names import TRACE_TOPIC

LATENCY_SAMPLE: Final = 200  # newest messages of a topic whose times are compared
LATENCY_TOPICS_MAX: Final = 50
TRACE_SAMPLE: Final = 2_000  # newest messages of the trace topic


class LatencyCollector:
    """Asks one cluster."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def latencies(self, look: ClusterLook) -> list[LatencySummary]:
        """Return what the cluster tells about latency: to the store by topic; to the handler and its end where it is traced."""
        topics = sorted({queue.queue.topic for group in look.groups for queue in group.queues if not queue.is_retry})
        found = await ask_each(topics[:LATENCY_TOPICS_MAX], self._store_latency)
        groups = {group.group for group in look.groups}
        traced = [one for one in await self._traced() if one.where in groups]
        return [*(one for one in found if one is not None), *traced]

    async def _store_latency(self, topic: str) -> LatencySummary | None:
        try:
            newest = await self._admin.messages.peek(topic, most=LATENCY_SAMPLE)
        except ClientError:
            return None
        return summarize("send to store", topic, [message.stored_ms - message.born_ms for message in newest])

    async def _traced(self) -> list[LatencySummary]:
        try:
            newest = await self._admin.messages.peek(TRACE_TOPIC, most=TRACE_SAMPLE)
        except ClientError:
            return []  # nobody traces in this cluster
        return trace_latencies(row for message in newest for row in decode_trace(message.body.decode(errors="replace")))

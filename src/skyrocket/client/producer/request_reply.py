"""Request and reply: a producer sends a request and waits for the reply that a consumer sends back through the broker.

The request carries three properties: a correlation id, the requesting client's id, and a time to live. The replying client sends
its reply to the topic `<cluster>_REPLY_TOPIC`; the broker pushes it over the requesting client's connection (request code 326).
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from skyrocket.client.errors import ReplyError, RequestTimedOutError
from skyrocket.client.message import Message
from skyrocket.client.producer.general_path import GeneralPath
from skyrocket.client.producer.queue_selection import QueueSelector
from skyrocket.client.producer.send_strategy import OpenScope
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received
from skyrocket.client.session.session import Session
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import REPLY_SUFFIX

MESSAGE_TYPE: Final = "MSG_TYPE"


class RequestReply:
    """The requests of one producer, and its replies to the requests of others."""

    def __init__(self, session: Session, general: GeneralPath, open_scope: OpenScope) -> None:
        self._session = session
        self._general = general
        self._open_scope = open_scope
        self._introduced: set[str] = set()  # topics whose brokers have had a heartbeat of this client

    async def request(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Received:
        """Send the message and return the reply. The timeout covers both directions."""
        session, general = self._session, self._general
        limit_ms = general.timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = session.now_ms() + limit_ms
        await self._introduce(message.topic, deadline_ms)
        correlation_id = secrets.token_hex(16)
        properties = {
            p.CORRELATION_ID: correlation_id,
            p.REPLY_TO_CLIENT: session.client_id,
            p.TIME_TO_LIVE: str(limit_ms),
        }
        reply = session.replies.expect(correlation_id)
        try:
            with self._open_scope([message]) as scope:
                request = general.build_request(scope.message, properties)
                choose = general.choose_queue(scope.message, queue, selector)
                scope.acknowledge(await general.delivery.deliver(request, deadline_ms, choose))
            try:
                async with asyncio.timeout(max(0, deadline_ms - session.now_ms()) / 1000):
                    return await reply
            except TimeoutError as error:
                raise RequestTimedOutError(
                    f"The request to topic '{message.topic}' was sent, but no reply came within {limit_ms} ms. "
                    "Check that a consumer of the topic calls reply_to, or pass a longer timeout_ms."
                ) from error
        finally:
            session.replies.forget(correlation_id)

    async def _introduce(self, topic: str, deadline_ms: int) -> None:
        """Send a heartbeat to the topic's brokers before the first request. A broker pushes a reply over the connection of the
        client that its heartbeats named."""
        if topic not in self._introduced:
            await self._general.find_queues(topic, deadline_ms)
            await self._session.send_heartbeats()
            if len(self._introduced) >= self._session.limits.topics_max:
                self._introduced.clear()  # a second heartbeat for a topic does no harm
            self._introduced.add(topic)

    async def reply_to(self, request: Received, body: bytes, timeout_ms: int | None) -> Receipt:
        """Send the reply to a request. Raise ReplyError when the message is not a request."""
        cluster = request.properties.get(p.CLUSTER)
        correlation_id = request.properties.get(p.CORRELATION_ID)
        reply_to = request.properties.get(p.REPLY_TO_CLIENT)
        if not cluster or not correlation_id or not reply_to:
            raise ReplyError(
                f"Message {request.message_id} is not a request: it lacks the properties {p.CLUSTER}, {p.CORRELATION_ID} or "
                f"{p.REPLY_TO_CLIENT}. Reply only to messages sent with Producer.request."
            )
        properties = {
            MESSAGE_TYPE: "reply",
            p.CORRELATION_ID: correlation_id,
            p.REPLY_TO_CLIENT: reply_to,
            p.TIME_TO_LIVE: request.properties.get(p.TIME_TO_LIVE, str(self._general.timeout_ms)),
        }
        message = Message(cluster + REPLY_SUFFIX, body)
        with self._open_scope([message]) as scope:
            reply = self._general.build_request(scope.message, properties)
            reply.code = RequestCode.SEND_REPLY_MESSAGE_V2
            return scope.acknowledge(await self._general.deliver(reply, message, timeout_ms=timeout_ms))

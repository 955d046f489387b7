"""The ordinary send: a small message to whichever queue is next, acknowledged at the first attempt.

Nearly every message goes this way, so it is one function and waits once, for the answer. What is not ordinary is left to
`delivery` before anything is sent; what fails goes on there, with the first attempt counted.
"""

from __future__ import annotations

import time

from skyrocket.client.delivery import Delivery
from skyrocket.client.errors import BrokerError
from skyrocket.client.gate import Gate
from skyrocket.client.lanes import Lane, Lanes
from skyrocket.client.message import Message, properties_text
from skyrocket.client.outgoing import SEND_CODE, Outgoing, properties_json
from skyrocket.client.receipt import Receipt, receipt_from
from skyrocket.client.send_answer import SEND_BIT
from skyrocket.net.errors import NetError
from skyrocket.protocol.message_id import UniqueIdFactory


class Express:
    def __init__(self, delivery: Delivery, lanes: Lanes, gate: Gate, ids: UniqueIdFactory, bytes_max: int) -> None:
        """`bytes_max` is the largest body that is neither compressed nor refused."""
        self._delivery = delivery
        self._next_lane = lanes.next
        self._gate = gate
        self._ids = ids
        self._now_ms = delivery.now_ms
        self._bytes_max = bytes_max

    def lane(self, message: Message) -> Lane | None:
        """On which to send it; None: it has to go the general way."""
        return None if message.sharding_key or len(message.body) > self._bytes_max else self._next_lane(message.topic)

    async def send(self, lane: Lane, message: Message, timeout_ms: int) -> Receipt:
        body, gate, connection = message.body, self._gate, lane.connection
        assert connection is not None, "such a lane is not given out"
        size_bytes, deadline_ms = len(body), self._now_ms() + timeout_ms
        waited = not gate.try_enter(size_bytes)
        if waited:
            await self._delivery.enter(size_bytes, message.topic, deadline_ms)
        try:
            born_ms = time.time_ns() // 1_000_000
            message_id = self._ids.next(born_ms)
            if waited and not connection.is_open:
                return await self._delivery.attempt(_outgoing(message, message_id), deadline_ms)
            opaque = connection.next_opaque() | SEND_BIT
            frame = lane.envelope.plain_frame(opaque, message_id, properties_json(message), body, born_ms, message.flag)
            try:
                answer = await connection.request_frame(opaque, frame, deadline_ms)
                return receipt_from(answer, message_id, lane.queue, lane.address)
            except (NetError, BrokerError) as error:
                outgoing = _outgoing(message, message_id)
                return await self._delivery.again(outgoing, deadline_ms, lane.queue, lane.address, error)
        finally:
            gate.leave(size_bytes)


def _outgoing(message: Message, message_id: str) -> Outgoing:
    """The same for the general way."""
    properties = properties_text(message, message_id)
    return Outgoing(message.topic, SEND_CODE, message_id, properties, message.body, flag=message.flag)

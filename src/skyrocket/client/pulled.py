"""A message as it came with a pull: sound, its body at hand, and the rest of its record decoded when it is first asked for.

Most handlers want the body and a property or two; decoding every field of every record would cost them as much as all the rest.
"""

from __future__ import annotations

from skyrocket.client.received import Received
from skyrocket.protocol.record import PlainParts, Record, decode_record


class Pulled(Received):
    __slots__ = ("_parts", "_record", "queue_offset", "size_bytes")

    def __init__(self, parts: PlainParts, broker_name: str, topic: str, arrived_ms: int) -> None:
        self._parts = parts
        self._record: Record | None = None
        self._properties = None
        self.queue_offset, is_compressed, _, body, _ = parts  # type: ignore[misc]
        self._body = None if is_compressed else body
        self.size_bytes = len(body)  # type: ignore[misc]
        self.broker_name = broker_name
        self.topic = topic
        self.arrived_ms = arrived_ms

    @property
    def record(self) -> Record:  # type: ignore[override]
        if self._record is None:
            _, _, head, body, tail = self._parts
            self._record = decode_record(head + body + tail, check_crc=False)  # it was
        return self._record

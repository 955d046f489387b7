"""A message as it came with a pull: sound, its body at hand, and the rest of its record decoded when it is first asked for.

Most handlers want the body and a property or two; decoding every field of every record would cost them as much as all the rest.
"""

from __future__ import annotations

from skyrocket.client.received import Received
from skyrocket.protocol.record import Record, RecordParts, decode_record


class Pulled(Received):
    __slots__ = ("_parts", "_record", "queue_offset", "size_bytes")

    def __init__(self, parts: RecordParts, broker_name: str, topic: str, arrived_ms: int) -> None:
        self._parts = parts
        self._record: Record | None = None
        self._properties = None
        self._body = None if parts.is_compressed else parts.body
        self.queue_offset = parts.queue_offset  # type: ignore[misc]
        self.size_bytes = len(parts.body)  # type: ignore[misc]
        self.broker_name = broker_name
        self.topic = topic
        self.arrived_ms = arrived_ms

    @property
    def record(self) -> Record:  # type: ignore[override]
        if self._record is None:
            parts = self._parts
            self._record = decode_record(parts.head + parts.body + parts.tail, check_crc=False)  # it was
        return self._record

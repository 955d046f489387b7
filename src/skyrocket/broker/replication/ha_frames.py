"""The bytes on a connection between master and slave: Apache's HA protocol.

The slave speaks first, and reports how far its log is. The master answers with bytes of its log.

     slave to master                 master to slave
     0            8                  0            8        12         12 + size
     +------------+                  +------------+--------+----- - - -+
     | log end    |                  | offset     | size   | log bytes |      size 0: a heartbeat
     +------------+                  +------------+--------+----- - - -+
      int64                           int64        int32

A body never crosses the end of a segment, and may begin and end in the middle of a record. `offset` of a heartbeat is where the
next transfer will begin.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from skyrocket.broker.errors import ReplicationError

REPORT: Final = struct.Struct(">q")
TRANSFER_HEADER: Final = struct.Struct(">qi")
TRANSFER_BYTES_MAX: Final = 4 * 1024 * 1024  # Apache's slave has a read buffer of this size


class Transfer(NamedTuple):
    """Bytes of the master's log, which begin at `offset`. A heartbeat has none."""

    offset: int
    body: bytes


def encode_transfer(offset: int, body: bytes = b"") -> bytes:
    return TRANSFER_HEADER.pack(offset, len(body)) + body


class TransferSplitter:
    """Splits what a master sends into transfers. It keeps an incomplete one in memory: at most TRANSFER_BYTES_MAX."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._needed = TRANSFER_HEADER.size

    def feed(self, data: bytes) -> list[Transfer]:
        """Return the transfers that are complete now. Raise ReplicationError when the bytes are not Apache's HA protocol."""
        self._kept += data
        found = []
        at = 0
        while len(self._kept) - at >= self._needed:
            offset, size = TRANSFER_HEADER.unpack_from(self._kept, at)
            if offset < 0 or not 0 <= size <= TRANSFER_BYTES_MAX:
                raise ReplicationError(
                    f"The master sent a transfer of {size} bytes for the log at {offset}. That is not the HA protocol: check "
                    f"that haMasterAddress is the HA port of a broker."
                )
            end = at + TRANSFER_HEADER.size + size
            if len(self._kept) < end:
                self._needed = end - at
                break
            found.append(Transfer(offset, bytes(self._kept[at + TRANSFER_HEADER.size : end])))
            at, self._needed = end, TRANSFER_HEADER.size
        del self._kept[:at]
        return found

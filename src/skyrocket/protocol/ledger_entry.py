"""The header of an entry of a DLedger log. It is the same in a data file and in a binary push between our nodes.

     0       4       8               16              24              32      36      40      44      48
     +-------+-------+---------------+---------------+---------------+-------+-------+-------+-------+------- - - -+
     | magic | size  | index         | term          | pos           |channel| chain | body  | body  | body        |
     | 1     |       |               |               |               |       | CRC   | CRC   | size  |             |
     +-------+-------+---------------+---------------+---------------+-------+-------+-------+-------+------- - - -+
      int32   int32   int64           int64           int64           int32   int32   int32   int32

      size: header and body                            pos: where the entry begins in the log
      channel, chain CRC, body CRC: always 0, and no node checks them

The body is one record of the commit log.
"""

from __future__ import annotations

import struct
from typing import Final

ENTRY_HEADER: Final = struct.Struct(">iiqqqiiii")
ENTRY_HEADER_BYTES: Final = ENTRY_HEADER.size
ENTRY_MAGIC: Final = 1

assert ENTRY_HEADER_BYTES == 48

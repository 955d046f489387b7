"""The timer checkpoint, `config/timercheck`: how far the timer files are known to be on disk. One page.

     0            8            16           24           32           40           48           56    64
     +------------+------------+------------+------------+------------+------------+------------+-----+-------------+
     | slot that  | end of the | messages   | the same   | version of this page: state, time, counter |     | our block   |
     | is read,   | timer log  | of the     | for the    |            |            |            |     |             |
     | ms         |            | topic done | master     |            |            |            |     |             |
     +------------+------------+------------+------------+------------+------------+------------+-----+-------------+
      int64 each; Apache's fields, with Apache's meaning: slots before the first were delivered, and messages of the timer topic
      before the third are in the timer log

     0          8          12         20         28         36         44         52         60
     +----------+----------+----------+----------+----------+----------+----------+----------+
     | mark     | CRC-32   | delivered| settled, | messages | 1 after a| known    | known    |      our block; the CRC covers
     |          |          | until, ms| ms       | waiting  | clean end| until    | settled  |      Apache's 56 bytes and the
     +----------+----------+----------+----------+----------+----------+----------+----------+      rest of the block

In the slot that is read, messages due until `delivered until` were delivered. `settled` is the slot that is read, or an earlier
one whose late messages are not delivered yet. The last two fields serve when the topic is read again from its start: messages
before `known until` were taken in before, and those of slots before `known settled` were delivered then.

The CRC shows whether another program has written the page since. Then the end of the timer log is found by scanning it, as Apache
does.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from skyrocket.protocol.crc import crc32
from skyrocket.store.files import Files

PAGE_BYTES: Final = 4096
APACHE: Final = struct.Struct(">7q")
_BLOCK_AT = 64
_MARK = b"skyrockt"
_BLOCK = struct.Struct(">8sI6q")
_OURS = struct.Struct(">6q")


class TimerCheckpoint(NamedTuple):
    read_ms: int = 0
    log_end: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    changed_ms: int = 0
    changes: int = 0
    delivered_until_ms: int | None = None  # None: another program wrote the page last, and the fields below mean nothing
    settled_ms: int = 0
    waiting: int = 0
    is_clean: int = 0
    known_until: int = 0
    known_settled_ms: int = 0

    @property
    def is_ours(self) -> bool:
        return self.delivered_until_ms is not None

    def apache_bytes(self) -> bytes:
        return APACHE.pack(*self[:7])


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    page = bytearray(PAGE_BYTES)
    apache = checkpoint.apache_bytes()
    page[: APACHE.size] = apache
    if checkpoint.is_ours:
        ours = checkpoint[7:]
        _BLOCK.pack_into(page, _BLOCK_AT, _MARK, crc32(apache + _OURS.pack(*ours)), *ours)
    return bytes(page)


def decode_timer_checkpoint(page: bytes) -> TimerCheckpoint:
    """Decode a page. Short or foreign content gives zeros, and the whole timer topic is read again."""
    page = page.ljust(PAGE_BYTES, b"\0")
    apache = APACHE.unpack_from(page)
    mark, crc, *ours = _BLOCK.unpack_from(page, _BLOCK_AT)
    if mark != _MARK or crc != crc32(page[: APACHE.size] + _OURS.pack(*ours)):
        return TimerCheckpoint(*apache)
    return TimerCheckpoint._make((*apache, *ours))


class TimerCheckpointFile:
    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def read(self) -> TimerCheckpoint | None:
        """Read the checkpoint; None when the file does not exist yet."""
        if not self._files.exists(self._path):
            return None
        return decode_timer_checkpoint(self._files.read(self._path))

    def write(self, checkpoint: TimerCheckpoint) -> None:
        """Write the page, all or nothing; it is durable on return."""
        self._files.replace(self._path, encode_timer_checkpoint(checkpoint))

"""The checkpoint: how far log, queues and index were known to be safe on disk. One page.

     0            8            16           24           32           40           48        64
     +------------+------------+------------+------------+------------+------------+---------+------------------+
     | log:       | queues:    | index:     | master     | confirmed  | queues:    | unused  | our block        |
     | time of    | time of    | time of    | flushed    | offset     | physical   |         |                  |
     | last flush | last flush | last flush | offset     |            | offset     |         |                  |
     +------------+------------+------------+------------+------------+------------+---------+------------------+
      int64 each; "time" is the store timestamp of the last message that is safe there; Apache's fields, and Apache's meaning

     0          8          12         20         28         32         40
     +----------+----------+----------+----------+----------+----------+
     | mark     | CRC-32   | safe end | dispatch | queues   | entries  |      our block: the CRC covers Apache's 48 bytes
     |          |          | of log   | end      |          | in them  |      and the rest of the block
     +----------+----------+----------+----------+----------+----------+

The block tells two things that Apache's fields cannot: exact positions, and whether anyone else wrote this page since (then the
CRC does not fit, Apache's fields alone count, and what is only ours, the checksums, is not trusted).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from skyrocket.protocol.crc import crc32
from skyrocket.store.files import Files

PAGE_BYTES = 4096
_APACHE = struct.Struct(">6q")
_BLOCK_AT = 64
_MARK = b"skyrockt"
_BLOCK = struct.Struct(">8sIqqiq")
_POSITIONS = struct.Struct(">qqiq")


class Checkpoint(NamedTuple):
    log_timestamp: int = 0
    queue_timestamp: int = 0
    index_timestamp: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0
    queue_physical_offset: int = 0  # of the last message in the queues
    safe_end: int | None = None  # of the log, on disk; this and the next are None when someone else wrote the page last
    dispatch_end: int | None = None  # everything before it is in queues and index, on disk
    queue_count: int | None = None  # consume queues that exist
    entry_count: int | None = None  # the sum of their ends: a file that is missing shows

    @property
    def is_ours(self) -> bool:
        return self.safe_end is not None


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    page = bytearray(PAGE_BYTES)
    apache = _APACHE.pack(*checkpoint[:6])
    page[: _APACHE.size] = apache
    if checkpoint.safe_end is not None:
        positions = _POSITIONS.pack(*checkpoint[6:])
        _BLOCK.pack_into(page, _BLOCK_AT, _MARK, crc32(apache + positions), *checkpoint[6:])
    return bytes(page)


def decode_checkpoint(page: bytes) -> Checkpoint:
    """Short or foreign content gives zeros: recovery then looks at everything."""
    page = page.ljust(PAGE_BYTES, b"\0")
    apache = _APACHE.unpack_from(page)
    mark, crc, *positions = _BLOCK.unpack_from(page, _BLOCK_AT)
    covered = page[: _APACHE.size] + page[_BLOCK_AT + 12 : _BLOCK_AT + _BLOCK.size]
    if mark != _MARK or crc != crc32(covered):
        return Checkpoint._make((*apache, None, None, None, None))
    return Checkpoint._make((*apache, *positions))


class CheckpointFile:
    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._written: bytes | None = None

    def read(self) -> Checkpoint:
        if not self._files.exists(self._path):
            return Checkpoint()
        return decode_checkpoint(self._files.read(self._path))

    def write(self, checkpoint: Checkpoint) -> None:
        """All or nothing, and durable when this returns. Nothing is done when nothing changed."""
        page = encode_checkpoint(checkpoint)
        if page != self._written:
            self._files.replace(self._path, page)
            self._written = page

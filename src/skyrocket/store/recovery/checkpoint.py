"""The checkpoint file: how far log, queues and index are known to be on disk. One page.

     0            8            16           24           32           40           48        64
     +------------+------------+------------+------------+------------+------------+---------+------------------+
     | log:       | queues:    | index:     | master     | confirmed  | queues:    | unused  | our block        |
     | time of    | time of    | time of    | flushed    | offset     | physical   |         |                  |
     | last flush | last flush | last flush | offset     |            | offset     |         |                  |
     +------------+------------+------------+------------+------------+------------+---------+------------------+
      int64 each; "time" is the store timestamp of the last message that is on disk there; Apache's fields, with Apache's meaning

     0          8          12         20         28         32         40
     +----------+----------+----------+----------+----------+----------+
     | mark     | CRC-32   | safe end | dispatch | queues   | entries  |      our block: the CRC covers Apache's 48 bytes
     |          |          | of log   | end      |          | in them  |      and the rest of the block
     +----------+----------+----------+----------+----------+----------+

Our block adds exact positions. It also shows whether another program has written the page since: then the CRC does not match,
only Apache's fields count, and our checksum files are not trusted.
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
    queue_physical_offset: int = 0  # physical offset of the last message in the queues
    safe_end: int | None = None  # the log is on disk up to here; from here on None when another program wrote the page
    dispatch_end: int | None = None  # queues and index are on disk for every message before it
    queue_count: int | None = None  # consume queues that exist
    entry_count: int | None = None  # the sum of their maximum offsets: reveals a missing file

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
    """Decode a page. Short or foreign content gives zeros, and recovery then scans the whole log."""
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
        """Write the page, all or nothing; it is durable on return. An unchanged page is not written."""
        page = encode_checkpoint(checkpoint)
        if page != self._written:
            self._files.replace(self._path, page)
            self._written = page

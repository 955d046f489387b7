"""Damage in the middle of the log: copied to `damaged/`, and replaced by filler records.

Apache's recovery stops at the first record that it cannot read and truncates everything behind it. To prevent that, the damaged
bytes are copied to a file in `damaged/`, and filler records take their place in the log. A filler is a sound record of a topic
that does not exist. It is marked as a rolled-back transaction, so that neither Apache's broker nor ours dispatches it to a queue
or the index.
"""

from __future__ import annotations

import re

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, Record, decode_record, encode_record
from skyrocket.protocol.sysflag import TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import FILLER_TOPIC
from skyrocket.store.files import File, Files
from skyrocket.store.log.readable import read_readable
from skyrocket.store.log.scan import DamagedRange

FILLER_BYTES_MAX = 1024 * 1024
FILLER_BYTES_MIN = FIXED_BYTES_MIN + 1
_KEPT_NAME = re.compile(r"(\d{20})-\d+")  # offset and size, as `set_aside` names a file; a repaired one has a prefix


def is_filler(record: Record) -> bool:
    """Whether a record is a filler, exactly as `make_fillers` writes it.

    A client can send any topic, body and sys flag. It cannot send a message without a store host: the broker writes its own.
    """
    if record.sys_flag != TRANSACTION_ROLLBACK or any(record.store_host):
        return False
    filler = Record(
        topic=FILLER_TOPIC[: len(record.topic) + len(record.body)],
        body=bytes(len(record.body)),
        physical_offset=record.physical_offset,
        sys_flag=TRANSACTION_ROLLBACK,
        born_timestamp=record.store_timestamp,
        store_timestamp=record.store_timestamp,
        body_crc=record.body_crc,
    )
    return record == filler


def make_fillers(offset: int, size: int, store_timestamp: int) -> bytes:
    """Return filler records that together take exactly `size` bytes at `offset`."""
    assert size >= FILLER_BYTES_MIN, f"{size} bytes are too few for a filler, and for any record"
    parts = []
    while size:
        piece = size if size <= FILLER_BYTES_MAX else min(FILLER_BYTES_MAX, size - FILLER_BYTES_MIN)
        parts.append(make_filler(offset, piece, store_timestamp))
        offset, size = offset + piece, size - piece
    return b"".join(parts)


def make_filler(offset: int, size: int, store_timestamp: int) -> bytes:
    """Return one filler record of `size` bytes for physical offset `offset`."""
    topic = FILLER_TOPIC[: size - FIXED_BYTES_MIN]
    return encode_record(
        Record(
            topic=topic,
            body=bytes(size - FIXED_BYTES_MIN - len(topic)),
            physical_offset=offset,
            sys_flag=TRANSACTION_ROLLBACK,
            born_timestamp=store_timestamp,
            store_timestamp=store_timestamp,
        )
    )


def explain_damage(segment: memoryview | bytes, at: int, damaged: DamagedRange, header_bytes: int = 0) -> str:
    """Say in a sentence what is wrong with bytes of the log that are no message. They lie at `at` in the segment.

    `header_bytes` lie in front of each record of the log.
    """
    where = f"{damaged.size} bytes of the log at {damaged.offset} cannot be read"
    try:
        record = decode_record(segment, at + header_bytes)
    except RecordError as error:
        return f"{where}: {error}"
    if is_filler(record):
        return f"{where}: they were damaged, were set aside in 'damaged', and a filler stands in their place."
    if record.physical_offset != damaged.offset + header_bytes:
        return f"{where}: the record there says that it lies at {record.physical_offset}."
    return f"{where}: the checksum over the whole record does not fit, so it is not what was written."


def set_aside(files: Files, directory: str, file: File, offset: int, size: int, filler: bytes) -> str:
    """Copy a damaged range to a file of its own, then write a filler over it. It is safe to repeat this after a crash."""
    at = offset % file.size
    kept = f"{directory}/{offset:020d}-{size}"
    if not files.exists(kept):
        files.replace(kept, read_readable(file, at, size))
    file.write(at, filler)
    file.sync()
    return kept


def set_aside_offsets(files: Files, directory: str) -> list[int]:
    """Return the log offsets where ranges begin that were set aside, at this start or an earlier one, in order.

    One number for each file in `damaged/`: a range is forgotten when an operator deletes its file.
    """
    named = map(_KEPT_NAME.fullmatch, files.names(directory))
    return sorted(int(match[1]) for match in named if match is not None)

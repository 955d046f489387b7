"""The message ids of staged rows. A row of a batch has the same id however often Spark writes it. Pure.

     0                        8            10           14           16
     +------------------------+------------+------------+------------+
     | hash of query, batch   | row, high  | 0          | row, low   |
     | and partition          | 16 bits    |            | 16 bits    |
     +------------------------+------------+------------+------------+

The id is written in hexadecimal. It is as long as a producer's unique id, so every tool accepts it. A producer's id has the time
since the start of the month in the bytes that are 0 here, so RocketMQ's tools search for the message from the start of the month.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from skyrocket.spark.errors import ColumnError

PREFIX_CHARACTERS: Final = 16
ID_CHARACTERS: Final = 32
ROWS_MAX: Final = 1 << 32
_MIDDLE: Final = "00000000"


def id_prefix(query_id: str, batch_id: int, partition: int) -> str:
    return blake2b(f"{query_id}\n{batch_id}\n{partition}".encode(), digest_size=PREFIX_CHARACTERS // 2).hexdigest().upper()


def row_id(prefix: str, row: int) -> str:
    return "%s%04X%s%04X" % (prefix, row >> 16, _MIDDLE, row & 0xFFFF)  # noqa: UP031 — half the time of a format string


def row_ids(prefix: str, rows: Iterable[int]) -> list[str]:
    return [row_id(prefix, row) for row in rows]


def check_rows(count: int) -> None:
    if count > ROWS_MAX:
        raise ColumnError(
            f"A partition has {count} rows, but exactly-once allows {ROWS_MAX} in one partition. Repartition the data frame."
        )


def row_of(message_id: str) -> tuple[str, int] | None:
    """Return the prefix and row of an id, or None if the id is not of a staged row."""
    if len(message_id) != ID_CHARACTERS or message_id[20:28] != _MIDDLE:
        return None
    try:
        return message_id[:PREFIX_CHARACTERS], int(message_id[16:20], 16) << 16 | int(message_id[28:], 16)
    except ValueError:
        return None

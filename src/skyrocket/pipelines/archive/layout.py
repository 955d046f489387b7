"""The names of an archive's folders and files, and its columns. Pure.

    archive/
      topic=orders/hour=2026-11-18-09/00000007-broker-a-3-00000000000000001000-5f0c9a1e.parquet
      _skyrocket/archive.json                      the archive's id and format
      _skyrocket/batches/00000007.json             what batch 7 published, and the offsets that it reached
      _skyrocket/staged/5f0c9a1e….parquet          files of tasks that are not published yet
      _skyrocket/lock                              held by the job that writes
      _skyrocket/readers                           held by jobs that read, together; by a compaction, while it deletes files
      _delta_log/                                  only in a Delta table

A file's name begins with its batch; broker, queue and first offset follow. The hour is that of the store time, in UTC. Readers of
Parquet folders (Spark, pyarrow, DuckDB) turn `topic=…` and `hour=…` into columns and pass over folders that begin with `_`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote

from skyrocket.spark.columns import COLUMNS

PARTITIONS: Final = ("topic", "hour")  # columns that are in the names of folders, not in files
FILE_COLUMNS: Final = tuple(name for name in COLUMNS if name != "topic")
TABLE_COLUMNS: Final = (*COLUMNS, "hour")

OWN_FOLDER: Final = "_skyrocket"
DESCRIPTION: Final = f"{OWN_FOLDER}/archive.json"
BATCHES: Final = f"{OWN_FOLDER}/batches"
STAGED: Final = f"{OWN_FOLDER}/staged"
LOCK: Final = f"{OWN_FOLDER}/lock"
READERS: Final = f"{OWN_FOLDER}/readers"
SUFFIX: Final = ".parquet"

HOUR_MS: Final = 3_600_000
_HOURS_MAX: Final = 70_000_000  # the year 9955: a store time beyond it is a broken clock
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def hour_text(hours: int) -> str:
    """Return an hour, counted from 1970 in UTC, as text that sorts by time. Impossible hours become the nearest possible one."""
    return f"{_EPOCH + timedelta(hours=min(max(hours, 0), _HOURS_MAX)):%Y-%m-%d-%H}"


def partition_folder(topic: str, hour: str) -> str:
    """Return the folder of a topic's hour. Names that RocketMQ reserves have a % or a |, which are escaped."""
    return f"topic={quote(topic, safe='')}/hour={hour}"


def parse_partition(path: str) -> tuple[str, str] | None:
    """Return topic and hour of a file by its path within the archive; None if it is not in such a folder."""
    parts = path.split("/")
    if len(parts) != 3 or not parts[0].startswith("topic=") or not parts[1].startswith("hour="):
        return None
    return unquote(parts[0].removeprefix("topic=")), parts[1].removeprefix("hour=")


def file_path(topic: str, hour: str, batch: int, broker: str, queue_id: int, start: int, staged: str) -> str:
    """Return the path at which a staged file is published."""
    unique = staged.removesuffix(SUFFIX)[:8]
    name = f"{batch:08}-{quote(broker, safe='')}-{queue_id}-{start:020}-{unique}{SUFFIX}"
    return f"{partition_folder(topic, hour)}/{name}"


def merged_path(topic: str, hour: str, batch: int, staged: str) -> str:
    """Return the path of a file that a compaction made of several."""
    return f"{partition_folder(topic, hour)}/{batch:08}-merged-{staged.removesuffix(SUFFIX)[:8]}{SUFFIX}"


def batch_file(batch: int) -> str:
    return f"{BATCHES}/{batch:08}.json"

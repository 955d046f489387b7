"""The options of the source `rocketmq-store`, which reads store directories."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from skyrocket.spark.columns import select_columns, spark_schema
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.table import Option, OptionTable, choice, flag, names, whole, word
from skyrocket.store.offline.offline_store import EVER_MS

MESSAGES: Final = "messages"
DAMAGE: Final = "damage"
DAMAGE_SCHEMA: Final = StructType(
    [
        StructField("broker", StringType()),
        StructField("path", StringType()),  # the commit log file in which the range starts
        StructField("offset", LongType()),  # in the commit log, as a message's physicalOffset
        StructField("size", LongType()),
    ]
)
_GLOB: Final = frozenset("*?[")


def parse_paths(text: str) -> tuple[str, ...]:
    """Parse paths separated by commas, or the JSON list that Spark makes of several paths given to `load`."""
    if text.lstrip().startswith("["):
        try:
            given = json.loads(text)
        except ValueError:
            given = None
        if isinstance(given, list) and all(isinstance(each, str) for each in given):
            return tuple(given)
    return names(text)


STORE_OPTIONS: Final = OptionTable(
    "the source rocketmq-store",
    (
        Option(
            "path",
            parse_paths,
            (),
            "the store directory given to `load`; several separated by commas, or a pattern with * and ?",
        ),
        Option("paths", parse_paths, (), "further store directories"),
        Option("broker", word, None, "the value of column broker. Default: the name in the store, or the directory's name"),
        Option("topic", names, (), "the topics to read, separated by commas"),
        Option("topics", names, (), "another name of option topic"),
        Option("systemTopics", flag, False, "also read the broker's internal topics: delayed, timed and half messages"),
        Option("columns", names, None, "the columns to decode, separated by commas"),
        Option("includeProperties", flag, False, "also decode column properties"),
        Option("startingTimestamp", whole(0), 0, "ms: read messages stored at this time or later"),
        Option("endingTimestamp", whole(0), EVER_MS, "ms: read messages stored before this time"),
        Option("check", flag, True, "verify checksums; a record with a wrong one is damage"),
        Option("maxPartitionBytes", whole(1024 * 1024), 128 * 1024 * 1024, "maximum bytes of the commit log for one task"),
        Option(
            "mode", choice(MESSAGES, DAMAGE), MESSAGES, "messages, or damage: the unreadable ranges of the commit log as rows"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    paths: tuple[str, ...]
    broker: str | None
    topics: tuple[str, ...]  # empty: all topics
    system_topics: bool
    columns: tuple[str, ...]
    begin_ms: int
    end_ms: int
    check: bool
    part_bytes_max: int
    mode: str

    @property
    def schema(self) -> StructType:
        return DAMAGE_SCHEMA if self.mode == DAMAGE else spark_schema(self.columns)


def store_options(options: Mapping[str, str]) -> StoreOptions:
    values = STORE_OPTIONS.read(options)
    if values["topic"] and values["topics"]:
        raise OptionError("Options 'topic' and 'topics' are two names of one option. Give only one of them.")
    return StoreOptions(
        paths=_directories(values),
        broker=values["broker"],
        topics=values["topic"] or values["topics"],
        system_topics=values["systemTopics"],
        columns=select_columns(values["columns"], include_properties=values["includeProperties"]),
        begin_ms=values["startingTimestamp"],
        end_ms=values["endingTimestamp"],
        check=values["check"],
        part_bytes_max=values["maxPartitionBytes"],
        mode=values["mode"],
    )


def _directories(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the store directories. Patterns are expanded on the driver, so that all tasks see the same directories."""
    given = (*values["path"], *values["paths"])
    if not given:
        raise OptionError("Option 'path' is missing. Pass the store directory to load().")
    found: list[str] = []
    for each in given:
        path = each.removeprefix("file://").removeprefix("file:")
        if not _GLOB & set(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path))  # noqa: PTH207 — Path.glob takes no absolute pattern
        if not matches:
            raise OptionError(f"Option 'path' is '{path}', which matches no directory.")
        found += matches
    return tuple(dict.fromkeys(path.rstrip("/") or "/" for path in found))

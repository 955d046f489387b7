"""The options of `rocketmq-store`."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from skyrocket.spark.columns import chosen_columns, spark_schema
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.table import Option, OptionTable, choice, flag, names, whole, word
from skyrocket.store.offline.offline_store import EVER_MS

MESSAGES: Final = "messages"
DAMAGE: Final = "damage"
DAMAGE_SCHEMA: Final = StructType(
    [
        StructField("broker", StringType()),
        StructField("path", StringType()),  # of the log's file in which the range begins
        StructField("offset", LongType()),  # in the log, as a message's physicalOffset
        StructField("size", LongType()),
    ]
)
_GLOB: Final = frozenset("*?[")


def paths_text(text: str) -> tuple[str, ...]:
    """With commas between; or a JSON list, which is how Spark passes on what `load` was given several of."""
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
            paths_text,
            (),
            "a store directory, as `load` gives it; several with commas between, or a pattern with * and ?",
        ),
        Option("paths", paths_text, (), "more of them"),
        Option(
            "broker", word, None, "the broker's name in column broker; otherwise what the store says, or the directory's name"
        ),
        Option("topic", names, (), "only these topics, with commas between"),
        Option("topics", names, (), "the same"),
        Option("systemTopics", flag, False, "also the topics that brokers keep for themselves: delayed, timed and half messages"),
        Option("columns", names, None, "only these columns, with commas between: what is not asked for is not decoded"),
        Option("includeProperties", flag, False, "column properties too"),
        Option("startingTimestamp", whole(0), 0, "ms: messages stored then or later"),
        Option("endingTimestamp", whole(0), EVER_MS, "ms: messages stored before"),
        Option("check", flag, True, "checksums are computed, and what does not fit is damage"),
        Option("maxPartitionBytes", whole(1024 * 1024), 128 * 1024 * 1024, "so much of a log for one task"),
        Option("mode", choice(MESSAGES, DAMAGE), MESSAGES, "messages; or damage: the ranges that cannot be read, as rows"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    paths: tuple[str, ...]
    broker: str | None
    topics: tuple[str, ...]  # none: all
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
        raise OptionError("Options 'topic' and 'topics' mean the same; give one of them.")
    return StoreOptions(
        paths=_directories(values),
        broker=values["broker"],
        topics=values["topic"] or values["topics"],
        system_topics=values["systemTopics"],
        columns=chosen_columns(values["columns"], include_properties=values["includeProperties"]),
        begin_ms=values["startingTimestamp"],
        end_ms=values["endingTimestamp"],
        check=values["check"],
        part_bytes_max=values["maxPartitionBytes"],
        mode=values["mode"],
    )


def _directories(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Patterns are filled in here, on the driver: tasks are given what it found."""
    given = (*values["path"], *values["paths"])
    if not given:
        raise OptionError("Option 'path' is missing: give the store directory to load().")
    found: list[str] = []
    for each in given:
        path = each.removeprefix("file://").removeprefix("file:")
        if not _GLOB & set(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path))  # noqa: PTH207 — Path.glob takes no absolute pattern
        if not matches:
            raise OptionError(f"Option 'path': nothing is there that {path} fits.")
        found += matches
    return tuple(dict.fromkeys(path.rstrip("/") or "/" for path in found))

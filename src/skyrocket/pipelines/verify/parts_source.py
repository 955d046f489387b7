"""The Spark source whose tasks verify: each takes one part of a plan, and yields one row with its result as JSON.

Tasks read store directories, so every worker must reach them under the paths that the plan names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from skyrocket.pipelines.progress import JobProgress, OnProgress
from skyrocket.pipelines.task_progress import share_of, watching_tasks
from skyrocket.pipelines.verify.replica_check import compare_range
from skyrocket.store.offline.verify_parts import LogPart, LogState, OtherPart, check_log_part, check_other_part

PLAN: Final = "plan"  # JSON: [[kind, arguments], …]
RESULT_ROW: Final = StructType([StructField("part", IntegerType()), StructField("result", StringType())])

Part = tuple[str, Sequence[Any]]  # a kind of KINDS, and plain values


def _check_log(path: str, part: Any) -> Any:
    return check_log_part(path, LogPart(*part))


def _check_other(path: str, log: Any, part: Any) -> Any:
    return check_other_part(path, msgspec.convert(log, LogState), msgspec.convert(part, OtherPart))


KINDS: Final[Mapping[str, Callable[..., Any]]] = {"log": _check_log, "other": _check_other, "bytes": compare_range}


def run_parts(spark: SparkSession, parts: Sequence[Part], whole: JobProgress, on_progress: OnProgress) -> list[bytes]:
    """Run each part as a task, and return their results as JSON, in the order of the parts.

    `whole` says what all parts together do: as many of its units are reported as done as there are tasks that have ended.
    """
    total = whole.total or 0
    on_progress(whole._replace(done=0))
    if not parts:
        return []
    spark.dataSource.register(VerifyParts)
    plan = msgspec.json.encode(parts).decode()
    frame = spark.read.format(VerifyParts.name()).option(PLAN, plan).load()
    with watching_tasks(spark, lambda done, tasks: whole._replace(done=share_of(total, done, tasks)), on_progress):
        rows = frame.collect()
    on_progress(whole._replace(done=total))
    found = {row["part"]: row["result"].encode() for row in rows}
    return [found[number] for number in range(len(parts))]


@dataclass(frozen=True)
class VerifyPartition(InputPartition):
    number: int
    kind: str
    arguments: tuple[Any, ...]


class VerifyParts(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-verify-parts"

    def schema(self) -> StructType:
        return RESULT_ROW

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return VerifyPartsReader(self.options)


class VerifyPartsReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        parts = msgspec.json.decode(options[PLAN])
        self._parts = [VerifyPartition(number, kind, tuple(given)) for number, (kind, given) in enumerate(parts)]

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        assert isinstance(partition, VerifyPartition)
        result = KINDS[partition.kind](*partition.arguments)
        yield partition.number, msgspec.json.encode(result).decode()

"""Reads an archive with Spark, whatever its format: the columns of the source `rocketmq`, and `hour`.

    with keep_files(Path("/mnt/archive")):
        orders = read_archive(spark, "/mnt/archive").where("topic = 'orders'").collect()

Spark opens files when it reads them. `keep_files` keeps a compaction from deleting them until then.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from skyrocket.pipelines.archive.archive_folder import archive_lock
from skyrocket.pipelines.archive.job import open_table
from skyrocket.pipelines.archive.layout import FILE_COLUMNS, PARTITIONS, TABLE_COLUMNS
from skyrocket.pipelines.errors import ArchiveError
from skyrocket.pipelines.json_columns.body_columns import BODY_COLUMNS, spark_fields
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.spark.columns import COLUMNS


def archive_schema(json_columns: JsonColumns | None = None) -> StructType:
    own = [] if json_columns is None else spark_fields(json_columns)
    return StructType(
        [
            *(StructField(name, COLUMNS[name].spark) for name in FILE_COLUMNS),
            *own,
            *(StructField(name, StringType()) for name in PARTITIONS),
        ]
    )


def archive_files(root: str | Path) -> list[str]:
    """Return the paths of an archive's published files, as of one batch.

    A batch whose publication was interrupted is finished first, unless a job is writing to the archive right now.
    """
    table = open_table(Path(root).absolute())
    try:
        with archive_lock(table.folder.root):
            table.recover()
    except (ArchiveError, PermissionError):
        pass  # a job is writing: `files` leaves out what it has not finished; or the archive is read-only
    return table.files()


def read_archive(spark: SparkSession, root: str | Path) -> DataFrame:
    """Return the messages of an archive; one with JSON columns also has `json`, `jsonRest` and `jsonError`."""
    files = archive_files(root)
    table = open_table(Path(root).absolute())
    json_columns = table.folder.json_columns
    schema, columns = archive_schema(json_columns), (*TABLE_COLUMNS, *(() if json_columns is None else BODY_COLUMNS))
    if not files:
        return spark.createDataFrame([], schema).select(*columns)
    reader = spark.read.schema(schema)
    if table.folder.format != "iceberg":  # its files have topic and hour in them
        reader = reader.option("basePath", str(table.folder.root))
    return reader.parquet(*files).select(*columns)

"""The two data sources that Spark loads: "rocketmq" (a cluster) and "rocketmq-store" (store directories on disk).

Spark pickles a data source into its planning processes and tasks, so these classes hold the options and nothing else. They
import a reader or writer only when Spark asks for one: a task that reads does not load the sink, and a task that writes does
not load the source. Each reader and writer checks the options as soon as it is made.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from skyrocket.spark.columns import spark_schema


class RocketMQ(DataSource):
    """`format("rocketmq")`: read and write the topics of a cluster, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        from skyrocket.spark.options.source_options import source_options  # noqa: PLC0415

        options = source_options(self.options)
        if options.parquet_path is None:
            return spark_schema(options.columns)
        from skyrocket.spark.source.parquet_files import FILE_SCHEMA  # noqa: PLC0415

        return FILE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from skyrocket.spark.source.batch_reader import BatchReader  # noqa: PLC0415

        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from skyrocket.spark.source.stream_reader import StreamReader  # noqa: PLC0415

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from skyrocket.spark.sink.writers import BatchWriter  # noqa: PLC0415

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from skyrocket.spark.sink.writers import StreamWriter  # noqa: PLC0415

        return StreamWriter(self.options, schema, overwrite)


class RocketMQStore(DataSource):
    """`format("rocketmq-store")`: read store directories straight from their files."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        from skyrocket.spark.options.store_options import store_options  # noqa: PLC0415

        return store_options(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from skyrocket.spark.offline.store_reader import StoreReader  # noqa: PLC0415

        return StoreReader(self.options, schema)

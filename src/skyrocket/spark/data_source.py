"""`spark.read.format("rocketmq")` and its three relatives: what Spark asks of a source, handed to the room that does it.

Everything here is pickled to Spark's planning processes and tasks, so it holds the options and nothing else. Options are read,
and errors in them told, as soon as Spark asks for anything.

`spark.read.format("rocketmq-store")`: store directories, read straight from their files.
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

# Rooms are entered when Spark asks for what is in them: a reading task need not load the sink, nor the reverse.


class RocketMQ(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        from skyrocket.spark.options.source_options import source_options  # noqa: PLC0415

        return spark_schema(source_options(self.options).columns)

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
    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        from skyrocket.spark.options.store_options import store_options  # noqa: PLC0415

        return store_options(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from skyrocket.spark.offline.store_reader import StoreReader  # noqa: PLC0415

        return StoreReader(self.options, schema)

"""`spark.read.format("rocketmq-store")`: store directories, read straight from their files."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType


class RocketMQStore(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        from skyrocket.spark.offline.store_options import store_options  # noqa: PLC0415

        return store_options(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from skyrocket.spark.offline.store_reader import StoreReader  # noqa: PLC0415

        return StoreReader(self.options, schema)

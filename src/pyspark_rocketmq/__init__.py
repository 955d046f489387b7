"""Entry point of the data source "rocketmq": Spark loads `DefaultSource` from every importable module named pyspark_*."""

from skyrocket.spark.data_source import RocketMQ as DefaultSource

__all__ = ["DefaultSource"]

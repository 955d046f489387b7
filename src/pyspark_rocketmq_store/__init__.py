"""Entry point of the data source "rocketmq-store": Spark loads `DefaultSource` from every importable module named pyspark_*."""

from skyrocket.spark.data_source import RocketMQStore as DefaultSource

__all__ = ["DefaultSource"]

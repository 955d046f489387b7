"""Where Spark looks for the source "rocketmq" by itself: a module on the path whose name begins with pyspark_."""

from skyrocket.spark.data_source import RocketMQ as DefaultSource

__all__ = ["DefaultSource"]

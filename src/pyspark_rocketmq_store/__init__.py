"""Where Spark looks for the source "rocketmq-store" by itself: a module on the path whose name begins with pyspark_."""

from skyrocket.spark.data_source import RocketMQStore as DefaultSource

__all__ = ["DefaultSource"]

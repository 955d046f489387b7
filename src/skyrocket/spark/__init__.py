"""RocketMQ in Spark, through PySpark's data source API. No jar is needed.

    import skyrocket.spark

    spark = skyrocket.spark.session()                  # or skyrocket.spark.register(spark) for an existing session
    orders = spark.read.format("rocketmq").option("nameserver", "127.0.0.1:9876").option("subscribe", "orders").load()

docs/spark.md lists the options and columns. `lag` and `LagListener` report how far a stream is behind its queues.
"""

from skyrocket.spark.registration import register
from skyrocket.spark.session.builder import session  # shadows the sub-package `session` as an attribute of this package
from skyrocket.spark.source.lag import LagListener, lag

__all__ = ["LagListener", "lag", "register", "session"]

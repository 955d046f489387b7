"""RocketMQ in Spark, through PySpark's data source API: no jar.

    import skyrocket.spark

    spark = skyrocket.spark.session.builder()                  # or register(spark) for one that is there already
    orders = spark.read.format("rocketmq").option("nameserver", "127.0.0.1:9876").option("subscribe", "orders").load()

docs/spark.md tells the options and columns.
"""

from skyrocket.spark.registration import register
from skyrocket.spark.session.builder import session

__all__ = ["register", "session"]

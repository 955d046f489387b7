"""Sales through Spark: a stream reads them from one topic, adds them up and writes each result to another topic exactly once.

    make run                                             # in one terminal
    make setup                                           # in another, once: installs Spark
    .venv/bin/python examples/spark_sales.py

The stream reads the topic `sales` from the offsets in its checkpoint, groups a micro-batch by shop, and writes a message for
each shop to `sales-by-shop`. The sink stages rows as half messages and commits them with their batch, so a crash neither loses
nor repeats a result. A new stream begins with the sales of this run; run the example again with the same --folder, and the stream
continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import skyrocket.spark
from skyrocket.client import Message
from skyrocket.client.sync import Admin, Producer, PullConsumer

ORDERS, RESULTS = "sales", "sales-by-shop"
SHOPS = ("north", "south", "east", "west")
SALE = "shop string, cents bigint"


def find_ends(nameserver: str) -> dict[str, str]:
    """Create the topics, and return where each ends now, as a value of `startingOffsets`: earlier runs may have left messages."""
    with Admin(nameserver) as admin:
        for topic in (ORDERS, RESULTS):
            admin.topics.create(topic, queues=4)
    ends = {}
    with PullConsumer(nameserver, group="sales-ends") as consumer:
        for topic in (ORDERS, RESULTS):
            offsets = {f"{each.broker_name}:{each.queue_id}": consumer.end_offset(each) for each in consumer.queues(topic)}
            ends[topic] = json.dumps({topic: offsets})
    return ends


def sell(nameserver: str, count: int) -> int:
    """Send sales as the program of a shop does, and return their total in cents."""
    total = 0
    with Producer(nameserver, group="tills") as tills:
        for number in range(count):
            shop, cents = random.choice(SHOPS), random.randrange(100, 10_000)
            total += cents
            sale = json.dumps({"shop": shop, "cents": cents})
            tills.send_soon(Message(ORDERS, sale.encode(), tag=shop, keys=[f"sale-{number}"]))
        tills.flush()
    return total


def add_up(sales: DataFrame) -> DataFrame:
    """Return a message for each shop, with the total and the number of sales."""
    sale = sales.select(f.from_json(sales.body.cast("string"), SALE).alias("sale")).select("sale.*")
    by_shop = sale.groupBy("shop").agg(f.sum("cents").alias("cents"), f.count("*").alias("sales"))
    return by_shop.select(f.to_json(f.struct("shop", "cents", "sales")).cast("binary").alias("body"), by_shop.shop.alias("tags"))


def run_stream(spark: SparkSession, nameserver: str, start: str, folder: Path) -> None:
    """Process the sales from these offsets on, or from those in the checkpoint, in micro-batches of at most 500, and end."""
    sales = (
        spark.readStream.format("rocketmq")
        .option("nameserver", nameserver)
        .option("subscribe", ORDERS)
        .option("startingOffsets", start)
        .option("maxOffsetsPerTrigger", 500)
        .option("columns", "body")
        .load()
    )

    def publish(batch: DataFrame, number: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")  # the checkpoint keeps it
        to_topic = add_up(batch).write.format("rocketmq").mode("append").option("nameserver", nameserver)
        to_topic.option("topic", RESULTS).option("delivery", "exactly-once").option("writeId", f"{query_id} {number}").save()

    query = sales.writeStream.foreachBatch(publish).option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()


def results(spark: SparkSession, nameserver: str, start: str) -> DataFrame:
    """Read the messages of the result topic, from these offsets on, as a table."""
    read = spark.read.format("rocketmq").option("nameserver", nameserver).option("subscribe", RESULTS)
    rows = read.option("startingOffsets", start).load()
    result = f.from_json(rows.body.cast("string"), "shop string, cents bigint, sales bigint")
    return (
        rows.select(result.alias("result")).select("result.*").groupBy("shop").agg(f.sum("cents"), f.sum("sales")).orderBy("shop")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--sales", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, help="Folder of the checkpoint. Default: a new folder.")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="sales-"))
    starts = find_ends(given.namesrv)
    sold = sell(given.namesrv, given.sales)
    print(f"{given.sales} sales came to {sold} cents.")
    spark = skyrocket.spark.session("sales", "local[2]", {"spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False})
    run_stream(spark, given.namesrv, starts[ORDERS], folder)
    cents = sales = 0
    for shop, shop_cents, shop_sales in results(spark, given.namesrv, starts[RESULTS]).collect():
        print(f"  {shop:<6} {shop_cents:>10} cents from {shop_sales} sales")
        cents, sales = cents + shop_cents, sales + shop_sales
    spark.stop()
    print(f"The results add up to {cents} cents from {sales} sales.")
    return 0 if given.folder is not None or (cents, sales) == (sold, given.sales) else 1


if __name__ == "__main__":
    sys.exit(main())

"""A driver without Spark, to be killed: stages rows as half messages, says READY, and commits them as one batch.

python -m tests.support.spark.sink_committer NAMESERVER TOPIC QUERY ROWS SEED
"""

from __future__ import annotations

import asyncio
import random
import sys

from tests.spark.sink_scenes import bodies, commit, exactly_once, stage


async def main(nameserver: str, topic: str, query: str, rows: int, seed: int) -> None:
    options = exactly_once(nameserver, topic, maxInFlight="50", settleTime="300ms")
    numbers = list(range(rows))
    random.Random(seed).shuffle(numbers)  # Spark promises no order
    staged = await stage(options, bodies(*map(str, numbers)), query=query)
    sys.stdout.write("READY\n")
    sys.stdout.flush()
    await commit(options, staged, query=query)


if __name__ == "__main__":
    nameserver, topic, query, rows, seed = sys.argv[1:]
    asyncio.run(main(nameserver, topic, query, int(rows), int(seed)))

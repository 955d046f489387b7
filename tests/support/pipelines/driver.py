"""Jobs of `skyrocket.pipelines` to be killed, as separate processes (`SparkDriver`): they print READY when the job is at work.

python -m tests.support.pipelines.driver '{"job": "archive", "nameserver": …, "topic": …, "to": …, "format": "parquet"}'
python -m tests.support.pipelines.driver '{"job": "table", "nameserver": …, "topic": …, "to": …, "table": …, "mode": …}'
python -m tests.support.pipelines.driver '{"job": "replay", "nameserver": …, "archive": …, "to": …, "progress": …, "rate": 500}'

python -m tests.support.pipelines.driver '{"job": "drain", "nameserver": …, "group": …, "topic": …, "to": …, "tag": …}'

Each takes a "master", too: `local[2]` without it. An archive and a table follow their topic until they read FINISH, and then
take what is left. A replay and a drain end by themselves and print DONE. A drain prints each of its steps. Spark's warnings are
on standard error: they tell of lost tasks.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import skyrocket.spark
from skyrocket.pipelines import archive_topics, drain_group, maintain_table, replay_messages
from skyrocket.pipelines.progress import JobProgress
from skyrocket.pipelines.replay.job import ReplaySource
from tests.support.pipelines.change_histories import options
from tests.support.pipelines.kills import DONE
from tests.support.spark.crash import FINISH, READY
from tests.support.spark.java import java_options
from tests.support.spark.stream_to_parquet import CONFIG, say

CLUSTER_CONFIG = {
    **CONFIG,
    "spark.log.level": "WARN",
    "spark.driver.defaultJavaOptions": "-Dspark.warnings=true",  # in the place of our settings of the log, which hide lost tasks
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": java_options(),
}


def say_ready(progress: JobProgress) -> None:
    if progress.what in ("archiving", "replaying", "applying changes"):
        say(READY)


def await_finish() -> threading.Event:
    """Return an event that is set when this process reads FINISH."""
    finish = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == FINISH:
                finish.set()

    threading.Thread(target=listen, daemon=True).start()
    return finish


def archive(spark: Any, given: dict[str, Any]) -> None:
    finish = await_finish()
    every: dict[str, Any] = {
        "cluster": {"nameserver": given["nameserver"]},
        "table_format": given["format"],
        "batch_messages": 100,
        "on_progress": say_ready,
    }
    archive_topics(spark, [given["topic"]], given["to"], follow=True, every_s=0.1, stop=finish, **every)
    archive_topics(spark, [given["topic"]], given["to"], compact=given["format"] != "iceberg", **every)


def table(spark: Any, given: dict[str, Any]) -> None:
    finish = await_finish()
    every: dict[str, Any] = {
        "cluster": {"nameserver": given["nameserver"]},
        "table": given["table"],
        "on_progress": say_ready,
    }
    wanted = options(given["mode"], topic=given["topic"], batch_messages=50)
    maintain_table(spark, wanted, given["to"], follow=True, every_s=0.1, stop=finish, **every)
    maintain_table(spark, wanted, given["to"], **every)


def replay(spark: Any, given: dict[str, Any]) -> None:
    replay_messages(
        spark,
        ReplaySource("archive", given["archive"]),
        to=given["to"],
        cluster={"nameserver": given["nameserver"]},
        rate=given["rate"],
        progress=given["progress"],
        on_progress=say_ready,
    )
    say(DONE)


def drain(spark: Any, given: dict[str, Any]) -> None:
    def say_step(progress: JobProgress) -> None:
        say(progress.what)
        say(READY)

    drain_group(
        spark,
        given["group"],
        [given["topic"]],
        given["to"],
        cluster={"nameserver": given["nameserver"]},
        tags=[given["tag"]],
        subscribed="true",
        batch_messages=100,
        on_progress=say_step,
    )
    say(DONE)


JOBS = {"archive": archive, "table": table, "replay": replay, "drain": drain}

if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    session = skyrocket.spark.session("killed", arguments.get("master", "local[2]"), CLUSTER_CONFIG)
    JOBS[arguments["job"]](session, arguments)
    session.stop()

"""Kills of jobs and brokers at random moments from a seed.

`SKYROCKET_PIPELINE_KILLS` is the number of kills of each test: one by default, twenty with `make pipeline-crash`.
"""

from __future__ import annotations

import os
import random
import time

from tests.support.skyrocket_process import Skyrocket

KILLS = int(os.environ.get("SKYROCKET_PIPELINE_KILLS", "1"))
DRIVER = "tests.support.pipeline_driver"
MOMENT_S_MAX = 2.0


def kill_and_start_broker(broker: Skyrocket, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, MOMENT_S_MAX))
    broker.kill()
    time.sleep(chance.uniform(0, 1.0))
    broker.start()

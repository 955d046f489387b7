"""The program of a node whose files expire in seconds, with the arguments of `skyrocket broker -n NAMESERVER --set KEY=VALUE…`.

It is that command with a clock for retention that is ahead of the machine's: with fileReservedTime=1, messages are kept for
KEPT_S seconds instead of an hour.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from skyrocket.broker.broker import Broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.steady_clock import BrokerClocks
from skyrocket.cli.server_command import serve
from tests.support.processes.skyrocket_process import SkyrocketBroker

KEPT_S = 2
AHEAD_MS = (3_600 - KEPT_S) * 1_000


class HurriedBroker(SkyrocketBroker):
    """A broker of this program, as a process."""

    module = "tests.failover.hurried_node"


def main(nameserver: str, *texts: str) -> None:
    settings = BrokerSettings().with_texts({"namesrvAddr": nameserver, **dict(text.split("=", 1) for text in texts)})

    async def run(stopped: asyncio.Event) -> None:
        real = BrokerClocks.real()
        broker = Broker(settings, clocks=replace(real, retention_ms=lambda: real.retention_ms() + AHEAD_MS))
        await broker.start()
        await broker.run_until(stopped)
        await broker.close()

    serve(run)


if __name__ == "__main__":
    _, _, _, given, *sets = sys.argv
    main(given, *sets[1::2])

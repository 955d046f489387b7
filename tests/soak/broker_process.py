"""The program of a broker under soak: `python -m tests.soak.broker_process CONTROL PAUSES KEY=VALUE…`.

It is `skyrocket broker` with a disk that can be made full or slow, and with a probe in its event loop.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import typer

from skyrocket.broker.broker import Broker
from skyrocket.broker.full_disk_start import run_broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.server_command import serve
from tests.soak.faulty_disk import DiskControl, FaultyDisk
from tests.soak.loop_probe import LoopProbe


def main(control: str, pauses: str, *texts: str) -> None:
    settings = BrokerSettings().with_texts(dict(text.split("=", 1) for text in texts))

    async def run(stopped: asyncio.Event) -> None:
        files = FaultyDisk(DiskControl(Path(control)))
        probe = LoopProbe(Path(pauses))

        def make(only_reads: bool) -> Broker:
            probe.rest()
            return Broker(settings, files=files, only_reads=only_reads)

        await run_broker(make, stopped, lambda _: probe.start())
        probe.close()

    try:
        serve(run)
    except typer.Exit as end:  # as the command line does
        sys.exit(end.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`skyrocket namesrv`: a nameserver until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from skyrocket.nameserver.errors import NameserverError
from skyrocket.nameserver.live_settings import read_settings
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import Settings
from skyrocket.net.errors import NetError

CANNOT_START = 2


def namesrv(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="Settings: key=value, Apache's keys.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; bindAddress. 127.0.0.1 unless told otherwise.")] = None,
    port: Annotated[int | None, typer.Option(help="listenPort; 9876 unless told otherwise, 0 lets the system choose.")] = None,
) -> None:
    """Run a nameserver: brokers register with it, clients ask it where topics are."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = Settings() if config is None else read_settings(config)
        flags = {"bindAddress": host, "listenPort": None if port is None else str(port)}
        settings = settings.with_texts({key: text for key, text in flags.items() if text is not None})
        asyncio.run(_serve(settings))
    except (NameserverError, NetError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT_START) from error


async def _serve(settings: Settings) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    nameserver = Nameserver(settings)
    await nameserver.start()
    typer.echo(f"The nameserver is ready on {nameserver.address}.")
    await stopped.wait()
    await nameserver.close()

"""`skyrocket namesrv`: a nameserver until it is told to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from skyrocket.cli.serving import serve
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings, read_settings


def namesrv(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="Settings: key=value, Apache's keys.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; bindAddress. 127.0.0.1 unless told otherwise.")] = None,
    port: Annotated[int | None, typer.Option(help="listenPort; 9876 unless told otherwise, 0 lets the system choose.")] = None,
) -> None:
    """Run a nameserver: brokers register with it, clients ask it where topics are."""
    flags = {"bindAddress": host, "listenPort": None if port is None else str(port)}

    async def main(stopped: asyncio.Event) -> None:
        settings = NameserverSettings() if config is None else read_settings(config)
        nameserver = Nameserver(settings.with_texts({key: text for key, text in flags.items() if text is not None}))
        await nameserver.start()
        typer.echo(f"The nameserver is ready on {nameserver.address}.")
        await stopped.wait()
        await nameserver.close()

    serve(main)

"""`skyrocket namesrv`: run a nameserver until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from skyrocket.cli.exposure import check_exposure
from skyrocket.cli.log_writer import LogFormat, LogOptions
from skyrocket.cli.server_command import (
    Insecure,
    LogFileFlag,
    LogFormatFlag,
    LogLevelFlag,
    serve,
    tell_start,
)
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings, apply_saved_changes, read_settings


def namesrv(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="A file of settings, key=value, with Apache's keys.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on (bindAddress); 127.0.0.1 by default.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on (listenPort); 9876 by default, 0 for any free port.")
    ] = None,
    insecure: Insecure = False,
    log_level: LogLevelFlag = None,
    log_format: LogFormatFlag = LogFormat.TEXT,
    log_file: LogFileFlag = None,
) -> None:
    """Run a nameserver. Brokers register with it, and clients look up routes in it."""
    flags = {"bindAddress": host, "listenPort": None if port is None else str(port), "logLevel": log_level}

    async def main(stopped: asyncio.Event) -> None:
        settings = apply_saved_changes(NameserverSettings()) if config is None else read_settings(config)
        settings = settings.with_texts({key: text for key, text in flags.items() if text is not None})
        check_exposure(settings, insecure=insecure)
        tell_start(settings)
        nameserver = Nameserver(settings)
        await nameserver.start()
        typer.echo(f"The nameserver is ready on {nameserver.address}.")
        await stopped.wait()
        await nameserver.close()

    serve(main, LogOptions(log_format, log_file))

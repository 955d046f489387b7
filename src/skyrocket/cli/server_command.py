"""Run a server until a signal stops it: signal handlers, uvloop, the limit of open files, one sentence when the start fails."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from skyrocket import __version__
from skyrocket.auth.errors import AccessError
from skyrocket.broker.errors import BrokerBrokenError
from skyrocket.cli.log_writer import LogFormat, LogOptions
from skyrocket.nameserver.errors import NameserverError
from skyrocket.net.descriptors import raise_descriptor_limit
from skyrocket.net.errors import NetError
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.server import ServerSettings
from skyrocket.store.errors import StoreError

log = logging.getLogger(__name__)

STANDARD_LOG = LogOptions()
CANNOT_START = 2
BROKE_DOWN = 3

Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond this machine, though anyone who can connect can read, write and delete.")
]
LogLevelFlag = Annotated[
    str | None, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR (logLevel); INFO by default.")
]
LogFormatFlag = Annotated[LogFormat, typer.Option("--log-format", help="Lines for people, or one JSON document a line.")]
LogFileFlag = Annotated[
    Path | None, typer.Option("--log-file", metavar="FILE", help="Log to a file, rotated at 64 MiB; standard error by default.")
]


class ProcessFlags(NamedTuple):
    """What a command passes on to the processes of its brokers."""

    insecure: bool
    log_level: str | None
    logs: LogOptions

    def arguments(self, name: str) -> list[str]:
        """Return the arguments of `skyrocket broker`. Each broker has a log file of its own, if there is one."""
        level = [] if self.log_level is None else ["--log-level", self.log_level]
        file = self.logs.file
        files = [] if file is None else ["--log-file", str(file.with_name(f"{file.stem}-{name}{file.suffix}"))]
        return [*(["--insecure"] if self.insecure else []), *level, "--log-format", self.logs.format.value, *files]


class BrokerProcessError(Exception):
    """A broker did not start in the process that was to run it. One sentence says why."""


def serve(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], logs: LogOptions = STANDARD_LOG) -> None:
    """Run `main(stopped)`; SIGTERM and SIGINT set the event `stopped`.

    A typed error becomes one sentence and exit code 2. A server that broke down while it ran has exit code 3.
    """
    raise_descriptor_limit()
    try:
        logs.start(logging.INFO)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run_until_signal(main))
    except (SettingsError, NameserverError, NetError, StoreError, AccessError, BrokerProcessError) as error:
        _say_last(error)
        raise typer.Exit(CANNOT_START) from error
    except BrokerBrokenError as error:
        _say_last(error)
        raise typer.Exit(BROKE_DOWN) from error


def tell_start(settings: ServerSettings) -> None:
    """Log which version starts, from the level on that the settings say."""
    logging.getLogger("skyrocket").setLevel(settings.log_level)
    log.info("skyrocket %s starts %s, as process %d.", __version__, settings.OWNER, os.getpid())


def _say_last(error: Exception) -> None:
    """Print why the server ends, behind all of its log lines."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    typer.echo(str(error), err=True)


def tune_garbage_collector() -> None:
    """Make the garbage collector run less often, and skip all objects that exist now.

    Call it once all modules are loaded. Nearly every object that a server allocates dies young and is part of no cycle, so
    frequent collections cost time and free nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _run_until_signal(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        log.info("Stopping: %s.", number.name)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    tune_garbage_collector()
    await main(stopped)
    log.info("Stopped.")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory if uvloop is installed: it takes a third less CPU than asyncio's loop."""
    try:
        import uvloop  # noqa: PLC0415 — an optional dependency
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

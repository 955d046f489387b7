"""Run a server until a signal stops it: signal handlers, uvloop, the limit of open files, one sentence when the start fails."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import typer

from skyrocket.auth.errors import AccessError
from skyrocket.broker.errors import BrokerBrokenError
from skyrocket.cli.log_writer import LogWriter
from skyrocket.nameserver.errors import NameserverError
from skyrocket.net.descriptors import raise_descriptor_limit
from skyrocket.net.errors import NetError
from skyrocket.settings.errors import SettingsError
from skyrocket.store.errors import StoreError

CANNOT_START = 2
BROKE_DOWN = 3


class BrokerProcessError(Exception):
    """A broker did not start in the process that was to run it. One sentence says why."""


def serve(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `main(stopped)`; SIGTERM and SIGINT set the event `stopped`.

    A typed error becomes one sentence and exit code 2. A server that broke down while it ran has exit code 3.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", handlers=[LogWriter(sys.stderr)])
    raise_descriptor_limit()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run_until_signal(main))
    except (SettingsError, NameserverError, NetError, StoreError, AccessError, BrokerProcessError) as error:
        _say_last(error)
        raise typer.Exit(CANNOT_START) from error
    except BrokerBrokenError as error:
        _say_last(error)
        raise typer.Exit(BROKE_DOWN) from error


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
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tune_garbage_collector()
    await main(stopped)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory if uvloop is installed: it takes a third less CPU than asyncio's loop."""
    try:
        import uvloop  # noqa: PLC0415 — an optional dependency
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

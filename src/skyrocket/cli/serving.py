"""What the commands that run servers share: signals, uvloop, and one sentence when something keeps them from starting."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import typer

from skyrocket.nameserver.errors import NameserverError
from skyrocket.net.errors import NetError
from skyrocket.settings.errors import SettingsError
from skyrocket.store.errors import StoreError

CANNOT_START = 2


def serve(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `main(stopped)` until it is told to stop. A typed error becomes a sentence and exit code 2."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_until_told(main))
    except (SettingsError, NameserverError, NetError, StoreError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT_START) from error


def tune_collector() -> None:
    """Called once everything is loaded. Nearly all that a server allocates dies young and in no cycle: the collector need not
    look so often, and never again at what is there for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _until_told(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tune_collector()
    await main(stopped)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a third less CPU."""
    try:
        import uvloop  # noqa: PLC0415 — an extra
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

"""Runs a broker, also one whose disk is full when it starts.

    start ──▶ serves reads and writes
      │ the disk is full while the store is opened
      ▼
    start for reading: recovery changes files in memory only (`ChangesInMemory`), consumers are served, sends are refused
      │ the disk has room again, because retention or an administrator made some
      ▼
    start anew, on the disk

Opening anew is a restart within the process. Clients connect again, as after any restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from skyrocket.broker.broker import Broker
from skyrocket.store.errors import DiskFullError
from skyrocket.store.files import Files

log = logging.getLogger(__name__)

ROOM_BYTES: Final = 4 * 1024 * 1024  # that a disk must have before the store is opened on it again
LOOK_S: Final = 1.0  # between two looks

MakeBroker = Callable[[bool], Broker]
"""Returns a new broker; with True, one that only reads."""


async def run_broker(
    make: MakeBroker, stopped: asyncio.Event, on_ready: Callable[[Broker], object], look_s: float = LOOK_S
) -> None:
    """Run a broker until `stopped` is set. `on_ready` is called each time that it serves clients.

    Raise BrokerBrokenError when the broker cannot go on, and DiskFullError when its store cannot even be read.
    """
    only_reads = False
    while not stopped.is_set():
        broker = make(only_reads)
        try:
            try:
                await broker.start()
            except DiskFullError as error:
                if only_reads or not broker.can_only_read:
                    raise
                log.error("%s Until there is room, the broker serves reads and refuses messages.", error)
                only_reads = True
                continue
            on_ready(broker)
            if not only_reads:
                await broker.run_until(stopped)
                return
            await _wait_for_room(broker, stopped, look_s)
            only_reads = False
        finally:
            await broker.close()


async def _wait_for_room(broker: Broker, stopped: asyncio.Event, look_s: float) -> None:
    """Serve reads until the disk has room, or `stopped` is set."""
    waiting = asyncio.ensure_future(broker.run_until(stopped))
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=look_s)
            if not waiting.done() and await asyncio.to_thread(has_room, broker.files, str(broker.store.paths.root)):
                log.warning("The disk has room again: the broker opens its store on it, and takes messages.")
                return
        await waiting
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting


def has_room(files: Files, directory: str) -> bool:
    """Whether a file of ROOM_BYTES can be created. It is removed again."""
    path = f"{directory}/room"
    try:
        files.remove(path)  # a broker that was killed may have left it
        files.create(path, ROOM_BYTES, ROOM_BYTES).close()
        files.remove(path)
    except OSError:
        return False
    return True

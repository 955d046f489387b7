"""The console beside `skyrocket run`: a process of its own, so that a page never delays a message.

It prints its address when it serves, or one sentence that says why it does not; the broker goes on either way. It ends with the
process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from typing import Final

from skyrocket.cli.local_cluster.supervisor import die_with_parent

log = logging.getLogger(__name__)

STOP_S_MAX: Final = 10.0


class ConsoleBeside:
    """`skyrocket console` for the cluster that this process runs."""

    def __init__(self, nameserver: str, port: int | None, tls_only: bool) -> None:
        """Without a `port` there is no console."""
        self._nameserver = nameserver
        self._port = port
        self._tls_only = tls_only
        self._starting: asyncio.Task[asyncio.subprocess.Process | None] | None = None

    def start_soon(self) -> None:
        """Start the process. It serves some tenths of a second later, and says so itself."""
        if self._port is None or self._starting is not None:
            return
        if self._tls_only:
            log.info("There is no console: the servers take TLS alone. Start it with: skyrocket console --tls")
            return
        self._starting = asyncio.get_running_loop().create_task(self._start(self._port), name="console")

    async def _start(self, port: int) -> asyncio.subprocess.Process | None:
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "skyrocket", "console", "--namesrv", self._nameserver, "--port", str(port)),
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C reaches the process that started it, which then stops it
                preexec_fn=die_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            log.error("The console cannot be started: %s. The broker goes on.", error)
            return None

    async def close(self) -> None:
        """Stop the process, and wait until it has ended."""
        if self._starting is None:
            return
        process = await self._starting
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S_MAX)
        except TimeoutError:
            log.error("The console did not stop within %.0f s, and is killed.", STOP_S_MAX)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

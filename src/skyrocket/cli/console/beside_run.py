"""The console beside `skyrocket run`: a process of its own, so that a page never delays a message.

It prints its address when it serves, or one sentence that says why it does not; the broker goes on either way. It ends with the
process that started it. Its lines look as those of that process, and go to a file of its own if there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from typing import Final

from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.connection import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from skyrocket.cli.local_cluster.supervisor import die_with_parent
from skyrocket.cli.server_command import ProcessFlags

log = logging.getLogger(__name__)

STOP_S_MAX: Final = 10.0


class ConsoleBeside:
    """`skyrocket console` for the cluster that this process runs."""

    def __init__(self, nameserver: str, port: int | None, settings: BrokerSettings, process: ProcessFlags) -> None:
        """Without a `port` there is no console."""
        self._nameserver = nameserver
        self._port = port
        self._obstacle = find_obstacle(settings, os.environ, nameserver)
        self._log_arguments = process._replace(insecure=False).arguments("console")
        self._starting: asyncio.Task[asyncio.subprocess.Process | None] | None = None

    def start_soon(self) -> None:
        """Start the process. It serves some tenths of a second later, and says so itself."""
        if self._port is None or self._starting is not None:
            return
        if self._obstacle:
            log.info("There is no console: %s", self._obstacle)
            return
        self._starting = asyncio.get_running_loop().create_task(self._start(self._port), name="console")

    async def _start(self, port: int) -> asyncio.subprocess.Process | None:
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "skyrocket", "console", "--namesrv", self._nameserver, "--port", str(port)),
                *self._log_arguments,
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


def find_obstacle(settings: BrokerSettings, environment: Mapping[str, str], nameserver: str) -> str:
    """Return why there can be no console beside these servers, and how to start one; nothing when there can be one.

    The users of the servers' settings are not for it: everybody on this machine would be an administrator.
    """
    if settings.tls_only:
        return "the servers take TLS alone. Start it with: skyrocket console --tls"
    variables = (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE)
    if settings.authentication_enabled and not all(map(environment.get, variables)):
        return (
            f"the servers ask who their clients are. Set {' and '.join(variables)}, the name and the password of a user for it, "
            f"and start it with: skyrocket console -n '{nameserver}'"
        )
    return ""

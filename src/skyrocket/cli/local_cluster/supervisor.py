"""The processes of a cluster's brokers: all start, one that ends starts again, and all stop together.

    start ──▶ ready ──▶ ended by itself ──▶ pause ──▶ start …        each broker for itself; the others go on
      │                                     0.5 s, doubled up to 30 s; 0.5 s again after it ran for a minute
      └─ ended before all were ready for the first time: none runs, and the broker's own sentence says why

Each broker is `skyrocket broker` in a session of its own, so Ctrl-C reaches only this process, which then stops the brokers. If
this process dies, Linux stops them. What a broker prints is printed here, with its name.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skyrocket.cli.server_command import BrokerProcessError

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.5  # between the end of a broker and its next start
PAUSE_S_MAX: Final = 30.0
STEADY_S: Final = 60.0  # a broker that ran for so long gets the short pause again
STOP_S_MAX: Final = 60.0  # for a broker to stop; then it is killed
_LINE_BYTES_MAX: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1


class BrokerCommand(NamedTuple):
    name: str
    arguments: list[str]  # of `skyrocket`
    broker: str = ""  # the broker's name, if it is another


class RestartPause:
    """How long to wait before a broker is started again."""

    def __init__(self) -> None:
        self._next_s = PAUSE_S

    def after(self, ran_s: float) -> float:
        """Return the pause after a broker ended that had run for so long."""
        pause_s = PAUSE_S if ran_s >= STEADY_S else self._next_s
        self._next_s = min(PAUSE_S_MAX, 2 * pause_s)
        return pause_s


class BrokerProcess:
    """One broker: the process that runs now, if any, and what it said."""

    def __init__(self, command: BrokerCommand, echo: Callable[[str], None]) -> None:
        self.name = command.name
        self._arguments = command.arguments
        self._echo = echo
        self._running: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._ready_mark = f"Broker {command.broker or command.name} is ready on "
        self.address = ""  # once it was ready
        self.last_line = ""
        self.on_ready: Callable[[], None] = lambda: None

    async def run(self) -> int:
        """Run the process, and return its exit code: negative for a signal."""
        self._running = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "skyrocket", *self._arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            limit=_LINE_BYTES_MAX,
            start_new_session=True,
            preexec_fn=die_with_parent if sys.platform == "linux" else None,
        )
        assert process.stdout is not None
        if self._is_stopping:  # while the process was being created
            self._send_signal(signal.SIGTERM)
        try:
            while line := await _read_line(process.stdout):
                self._take_line(line)
            return await process.wait()
        finally:
            self._running = None

    def _take_line(self, line: str) -> None:
        self.last_line = line.rstrip()
        is_json = self.last_line.startswith("{")  # of --log-format json, for programs
        self._echo(self.last_line if is_json else f"[{self.name}] {self.last_line}")
        if self.last_line.startswith(self._ready_mark):
            self.address = self.last_line.removeprefix(self._ready_mark).split()[0].rstrip(".")
            self.on_ready()

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def stop(self) -> None:
        self._is_stopping = True
        self._send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._send_signal(signal.SIGKILL)

    def _send_signal(self, number: signal.Signals) -> None:
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                self._running.send_signal(number)


async def _read_line(stream: asyncio.StreamReader) -> str:
    """Return the next line; empty at the end. A line beyond the limit is left out."""
    while True:
        try:
            return (await stream.readline()).decode(errors="replace")
        except ValueError:
            continue


_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Ask Linux to stop this process when its parent dies."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class BrokerSupervisor:
    def __init__(self, commands: Sequence[BrokerCommand], echo: Callable[[str], None]) -> None:
        self.processes = [BrokerProcess(command, echo) for command in commands]
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._starting = {process.name for process in self.processes}  # never ready so far
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Start all brokers and wait until they serve. Raise BrokerProcessError when one does not."""
        for process in self.processes:
            process.on_ready = lambda process=process: self._note_ready(process)  # type: ignore[misc]
            self._tasks.append(asyncio.get_running_loop().create_task(self._supervise(process), name=process.name))
        await self._started

    def _note_ready(self, process: BrokerProcess) -> None:
        self._starting.discard(process.name)
        if not self._starting and not self._started.done():
            self._started.set_result(None)

    async def _supervise(self, process: BrokerProcess) -> None:
        loop, pause = asyncio.get_running_loop(), RestartPause()
        while not self._stopping.is_set():
            began = loop.time()
            code = await process.run()
            if self._stopping.is_set():
                if code not in (0, -signal.SIGTERM):  # SIGTERM ends a process that has hardly begun
                    log.error("%s %s while it stopped: %s", process.name, _format_end(code), process.last_line)
                return
            if not self._started.done():
                reason = f"{process.name} did not start, it {_format_end(code)}: {process.last_line}"
                self._started.set_exception(BrokerProcessError(reason))
                return
            pause_s = pause.after(loop.time() - began)
            log.error("%s %s. It starts again in %.1f s. The other brokers go on.", process.name, _format_end(code), pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def close(self) -> None:
        """Stop all brokers, and wait until they have ended."""
        self._stopping.set()
        for process in self.processes:
            process.stop()
        if not self._tasks:
            return
        await asyncio.wait(self._tasks, timeout=STOP_S_MAX)
        for process in self.processes:
            if process.is_running:
                log.error("%s did not stop within %.0f s, and is killed.", process.name, STOP_S_MAX)
                process.kill()
        await asyncio.gather(*self._tasks)


def _format_end(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

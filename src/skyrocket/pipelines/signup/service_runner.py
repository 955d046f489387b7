"""Starts the services of the demo as processes, kills one, and ends them in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from skyrocket.pipelines.errors import PipelineError
from skyrocket.pipelines.signup.effect_ledger import EffectLedger
from skyrocket.pipelines.signup.service_process import ServiceOrders

END_S_MAX: Final = 60.0  # for a service to finish its handlers; then it is killed
_MODULE: Final = "skyrocket.pipelines.signup.service_process"
_LOG_CHARACTERS: Final = 500


class ServiceRunner:
    """One service: its process, if it runs, and its ledger, which stays."""

    def __init__(self, orders: ServiceOrders, folder: Path) -> None:
        self.name = orders.service
        self.group = orders.group
        self.ledger_path = Path(orders.ledger)
        self.ledger = EffectLedger(self.ledger_path)
        self._orders = orders
        self._log = folder / f"{orders.service}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process. It joins its group some moments later."""
        assert self._process is None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 — a module of this package
                [sys.executable, "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the job alone, which ends the services
            )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._orders) + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End the process as a crash does: it does nothing more."""
        process = self._take_process()
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Let the process finish its handlers, commit its offsets and leave its group."""
        if self._process is None:
            return
        process = self._take_process()
        process.terminate()
        try:
            process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def check(self) -> None:
        """Raise PipelineError if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code = self._process.returncode
            said = self._log.read_text(errors="replace")[-_LOG_CHARACTERS:].strip().splitlines()
            raise PipelineError(f"The {self.name} service ended with exit code {code}: {said[-1] if said else 'it said nothing'}")

    def _take_process(self) -> subprocess.Popen[bytes]:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        return process


class ServiceRunners:
    """All services of a demo. None is left running at the end of the `with` block."""

    def __init__(self, make_orders: Callable[[str], ServiceOrders], names: list[str], folder: Path) -> None:
        self.runners = {name: ServiceRunner(make_orders(name), folder) for name in names}

    def __getitem__(self, name: str) -> ServiceRunner:
        return self.runners[name]

    def check(self) -> None:
        """Raise PipelineError if a process has ended by itself."""
        for runner in self.runners.values():
            runner.check()

    def stop(self) -> None:
        """End all services in order."""
        for runner in self.runners.values():
            runner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for runner in self.runners.values():
            if runner.is_running:
                runner.kill()
            runner.ledger.close()

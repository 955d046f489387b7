"""The audit log: one JSON line for each refused request and for each request that changes something as an administrator.

    {"time":"2026-11-18T05:31:00.123Z","decision":"refused","user":"alice","peer":"10.0.0.7:51312","code":17,
     "request":"UPDATE_AND_CREATE_TOPIC","resources":["Topic:orders"],"targets":[],"response":16,
     "remark":"User:alice has no permission …"}

A request that was admitted has its line when it is answered. `response` is the code of the answer; null when there is none.
A line has neither bodies nor signatures nor passwords. Lines wait in memory and are written by a thread, so the loop never waits
for a disk. Everything is bounded: the lines that wait, their texts, the file, and the older files beside it (audit.log.1 is the
newest of them). When too many lines wait, the next line that is written says how many were left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import ResponseCode
from skyrocket.rotating_file import FILE_BYTES_MAX, RotatingFile

log = logging.getLogger(__name__)

ADMITTED: Final = "admitted"
REFUSED: Final = "refused"
LINES_MAX: Final = 10_000  # that wait to be written
TEXT_LENGTH_MAX: Final = 300
RESOURCES_MAX: Final = 20


class AuditLog:
    def __init__(self, path: Path, wall_ms: Callable[[], int], file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._file = RotatingFile(path, file_bytes_max)
        self._wall_ms = wall_ms
        self._waiting: list[dict[str, Any]] = []
        self._left_out = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-audit")
        self._writing: asyncio.Future[None] | None = None
        self._is_failing = False

    def record(
        self,
        decision: str,
        *,
        user: str,
        peer: str,
        code: int | None,
        request: str,
        resources: Sequence[str] = (),
        targets: Sequence[str] = (),
        response: int | None = None,
        remark: str = "",
    ) -> None:
        """Take a line. It is written soon, by a thread. `code` is None for what is no request."""
        if len(self._waiting) >= LINES_MAX:
            self._left_out += 1
            return
        now = datetime.fromtimestamp(self._wall_ms() / 1000, UTC)
        line: dict[str, Any] = {
            "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "decision": decision,
            "user": user[:TEXT_LENGTH_MAX],
            "peer": peer,
            "code": code,
            "request": request,
            "resources": [name[:TEXT_LENGTH_MAX] for name in resources[:RESOURCES_MAX]],
            "targets": [name[:TEXT_LENGTH_MAX] for name in targets[:RESOURCES_MAX]],
            "response": response,
            "remark": remark[:TEXT_LENGTH_MAX],
        }
        if self._left_out:
            line["leftOut"], self._left_out = self._left_out, 0
        self._waiting.append(line)
        if self._writing is None:
            self._write_soon()

    def _write_soon(self) -> None:
        lines, self._waiting = self._waiting, []
        self._writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, lines)
        self._writing.add_done_callback(self._finish)

    def _finish(self, done: asyncio.Future[None]) -> None:
        self._writing = None
        error = None if done.cancelled() else done.exception()
        if error is not None and not self._is_failing:
            log.error("The audit log %s cannot be written: %s", self._file.path, error)
        self._is_failing = error is not None
        if self._waiting:
            self._write_soon()

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        """Append lines. Runs in a thread."""
        self._file.append(b"".join([msgspec.json.encode(line) + b"\n" for line in lines]))

    async def close(self) -> None:
        """Write the lines that wait."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
            await asyncio.sleep(0)  # the callback has run
        self._thread.shutdown()


def outcome_of(answer: object) -> tuple[int | None, str]:
    """Return the code of an answer, and why it is no success."""
    if not isinstance(answer, Command):
        return None, ""
    return answer.code, "" if answer.code == ResponseCode.SUCCESS else answer.remark or ""

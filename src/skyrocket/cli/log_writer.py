"""Writes log lines in a thread of its own, so that no server waits for the disk or the terminal that its log goes to.

    logging ──format──▶ [lines, at most LINES_MAX] ──thread──▶ stream

A server that logs more than its stream takes leaves lines out, and the next line says how many. At the end of the process
`close`, which `logging` calls by itself, writes what is left. Only kill -9 and a fatal signal lose the lines of the last moment.

Lines are text for people or, with --log-format json, one JSON document each. They go to standard error, or to --log-file, which
is rotated.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple, Protocol

import msgspec

from skyrocket.rotating_file import RotatingFile
from skyrocket.settings.errors import SettingsError

LINES_MAX: Final = 10_000  # that wait to be written
LINES_AT_ONCE: Final = 500
LOG_BYTES_MAX: Final = 64 * 1024 * 1024  # of --log-file; then it is rotated
TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"
FLUSH_S_MAX: Final = 10.0  # that the end of the process waits for its last lines


class Stream(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogOptions(NamedTuple):
    """Where a server's log goes, and how its lines look."""

    format: LogFormat = LogFormat.TEXT
    file: Path | None = None

    def start(self, level: int) -> None:
        """Set up the log of this process."""
        try:
            stream = sys.stderr if self.file is None else LogFile(self.file)
        except OSError as error:
            raise SettingsError(f"The log file {self.file} cannot be written: {error.strerror}.") from error
        writer = LogWriter(stream)
        writer.setFormatter(JsonFormatter() if self.format is LogFormat.JSON else logging.Formatter(TEXT_FORMAT))
        logging.basicConfig(level=level, handlers=[writer])


class JsonFormatter(logging.Formatter):
    """One JSON document a line: {"time":"…Z","level":"WARNING","logger":"…","message":"…"}; "exception" where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class LogFile:
    """A stream of lines into a file that is rotated."""

    def __init__(self, path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._file = RotatingFile(path, bytes_max)
        self._file.append(b"")  # a path that cannot be written is told at the start

    def write(self, text: str) -> None:
        self._file.append(text.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Nothing is buffered."""


class LogWriter(logging.Handler):
    def __init__(self, stream: Stream, lines_max: int = LINES_MAX) -> None:
        super().__init__()
        self._stream = stream
        self._lines_max = lines_max
        self._lines: SimpleQueue[str | threading.Event] = SimpleQueue()  # an event is set when all before it is written
        self._left_out = 0  # lines, since the last one that was taken
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="skyrocket-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line. Its text is made now: what it names may be different later."""
        if self._is_closed:
            return
        if self._lines.qsize() >= self._lines_max:
            self._left_out += 1
            return
        try:
            text = self.format(record)
        except (TypeError, ValueError, KeyError):  # a wrong format string must not stop the server
            self.handleError(record)
            return
        if self._left_out:
            self._lines.put(f"{self._left_out} log lines were left out: they came faster than they could be written.")
            self._left_out = 0
        self._lines.put(text)

    def flush(self) -> None:
        """Wait until all lines so far are written, but not for ever."""
        is_written = threading.Event()
        self._lines.put(is_written)
        is_written.wait(FLUSH_S_MAX)

    def close(self) -> None:
        """Write all lines, and take no more."""
        if not self._is_closed:
            self._is_closed = True
            self.flush()
        super().close()

    # --- in the thread

    def _run(self) -> None:
        while True:
            taken = [self._lines.get()]
            with suppress(Empty):
                while len(taken) < LINES_AT_ONCE:
                    taken.append(self._lines.get_nowait())
            self._write([line for line in taken if isinstance(line, str)])
            for is_written in taken:
                if isinstance(is_written, threading.Event):
                    is_written.set()

    def _write(self, lines: list[str]) -> None:
        if not lines:
            return
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # a full disk, or a stream that was closed: the server goes on without its log
            self._left_out += len(lines)

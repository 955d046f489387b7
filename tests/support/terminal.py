"""Commands at a terminal, with a person who answers."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable

from tests.support.waiting import WAIT_S_MAX


def answer_at_terminal(text: str, *arguments: str, meanwhile: Callable[[], object] = lambda: None) -> tuple[int, str, str]:
    """Run a command at a terminal and type an answer. Returns its exit code, what the terminal shows, and its output.

    `meanwhile` happens while the question stands.
    """
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "skyrocket", *arguments]
    with subprocess.Popen(
        command, stdin=slave, stderr=slave, stdout=subprocess.PIPE, env={**os.environ, "TERM": "dumb"}
    ) as process:
        os.close(slave)
        shown, deadline = "", time.monotonic() + WAIT_S_MAX
        while "[y/N]" not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65_536).decode()
        meanwhile()
        os.write(master, text.encode())
        assert process.stdout is not None
        output, ends = b"", {process.stdout.fileno(), master}
        while process.stdout.fileno() in ends:  # both are read: a terminal that nobody reads stops the command
            for end in select.select(list(ends), [], [])[0]:
                read = _read(end)
                shown += read.decode(errors="replace") if end == master else ""
                output += read if end != master else b""
                if not read:
                    ends.discard(end)
        code = process.wait(WAIT_S_MAX)
    while master in ends and select.select([master], [], [], 0)[0] and (read := _read(master)):
        shown += read.decode(errors="replace")
    os.close(master)
    return code, shown, output.decode()


def _read(end: int) -> bytes:
    try:
        return os.read(end, 65_536)
    except OSError:  # the other side of the terminal is closed
        return b""

"""Commands at a terminal, with a person who answers."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

from tests.support.waiting import WAIT_S_MAX


def answer_at_terminal(text: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command at a terminal and type an answer. Returns its exit code, what the terminal shows, and its output."""
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
        os.write(master, text.encode())
        assert process.stdout is not None
        output = process.stdout.read().decode()
        code = process.wait(WAIT_S_MAX)
    while select.select([master], [], [], 0)[0]:
        try:
            shown += os.read(master, 65_536).decode()
        except OSError:  # the other side is closed
            break
    os.close(master)
    return code, shown, output

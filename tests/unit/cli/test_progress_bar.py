"""A progress bar is on standard error, on a terminal only, and standard output stays what it is."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

from tests.support.waiting import WAIT_S_MAX

SHOW = """
from skyrocket.cli.progress_bar import is_terminal, show_progress
from skyrocket.pipelines.progress import JobProgress
with show_progress("counting", is_shown=is_terminal()) as on_progress:
    on_progress(JobProgress("counting", 3, 10))
    print("a result")
"""


def test_on_a_terminal_the_bar_is_drawn_and_the_output_is_clean():
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", SHOW], stderr=slave, stdout=subprocess.PIPE, env=environment) as process:
        os.close(slave)
        assert process.stdout is not None
        assert process.stdout.read() == b"a result\n"
        assert process.wait(WAIT_S_MAX) == 0
    shown = b""
    while select.select([master], [], [], 0)[0]:
        try:
            shown += os.read(master, 65_536)
        except OSError:  # the other side is closed
            break
    os.close(master)
    assert b"counting" in shown
    assert b"3 of 10 messages" in shown


def test_in_a_pipe_there_is_no_bar():
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, timeout=WAIT_S_MAX, check=True)
    assert (done.stdout, done.stderr) == (b"a result\n", b"")

"""Benchmarks count the CPU time of a process with its children, but not that of the servers that it started."""

from __future__ import annotations

import os
import subprocess
import sys

from bench._process_tree import TreeWatch, tree_cpu_s

WORK = "import time\nwhile time.process_time() < 0.3: pass\nprint('worked', flush=True)\ninput()"


def test_servers_are_left_out():
    watches = {"all": TreeWatch()}
    with subprocess.Popen([sys.executable, "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        watches["without the server"] = TreeWatch([child.pid])
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"worked\n"
        spent_s = {name: watch.spent().cpu_s for name, watch in watches.items()}
        assert tree_cpu_s(child.pid) >= 0.25  # the system counts in steps
        assert tree_cpu_s(os.getpid(), [os.getpid()]) == 0
        child.stdin.write(b"\n")
        child.stdin.close()
    assert spent_s["all"] - spent_s["without the server"] >= 0.2

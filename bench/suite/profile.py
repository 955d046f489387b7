"""Where a broker's CPU time goes under a load, by samples of `perf`.

Samples in the kernel count for what it was asked for, those in user space for the library that they were taken in.

    perf record samples the process 997 times a second of its CPU time, with the kernel's call chains
    perf script prints the samples; the first line of a chain is where the processor was:

        1234
                ffffffff81a1b2c3 tcp_ack ([kernel.kallsyms])
                ffffffff81a0f0e1 tcp_sendmsg ([kernel.kallsyms])
                ffffffff8123abcd __x64_sys_write ([kernel.kallsyms])
                    7f12ab34cd56 __write (/usr/lib/x86_64-linux-gnu/libc.so.6)

A write to a loopback socket also runs the receiving side of the connection and wakes the client, so that is part of it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.suite.generator import LoadError, generate, generator
from bench.suite.loads import Load
from bench.suite.record import Profile
from bench.suite.servers import Server

PROFILE_S: Final = 0.7
LOAD_S: Final = 1.3  # so that it runs before the first sample, and behind the last
BUSY_S: Final = 0.05  # CPU time of the server that tells that the load has begun
FREQUENCY: Final = 997
MISSING: Final = "perf is not installed (Debian: linux-perf), so there is no table of where CPU time goes"

KERNEL: Final = "[kernel"
SOCKET_WRITES, SOCKET_READS, POLLS, FILES, OTHER_KERNEL = "socket writes", "socket reads", "epoll", "files", "other kernel"
TWINS, INTERPRETER, UVLOOP, LIBC, REST = "compiled twins", "interpreter", "uvloop", "libc", "rest"
KINDS: Final = (SOCKET_WRITES, SOCKET_READS, POLLS, FILES, OTHER_KERNEL, INTERPRETER, TWINS, UVLOOP, LIBC, REST)

# What a chain in the kernel contains, the first that is found counts.
_KERNEL_KINDS: Final = (
    (("tcp_sendmsg", "sock_write_iter", "unix_stream_sendmsg"), SOCKET_WRITES),
    (("tcp_recvmsg", "sock_read_iter", "unix_stream_recvmsg"), SOCKET_READS),
    (("epoll",), POLLS),
    (("pwrite64", "pread64", "preadv", "vfs_write", "vfs_read", "ext4", "fsync", "fdatasync"), FILES),
)
_LIBRARY_KINDS: Final = (("skyrocket/compiled/", TWINS), ("uvloop", UVLOOP), ("python", INTERPRETER), ("libc", LIBC))


def is_there() -> bool:
    return shutil.which("perf") is not None


def profile_load(load: Load, server: Server, home: Path) -> Profile:
    """Run a load once more, and sample the server meanwhile."""
    home.mkdir(parents=True, exist_ok=True)
    generator()
    with ThreadPoolExecutor(1) as pool:
        before_s = server.cpu_s()
        running = pool.submit(generate, load.mode, server.port, load.topic, LOAD_S, load.options)
        while server.cpu_s() - before_s < BUSY_S and not running.done():
            time.sleep(0.01)
        recording = _begin_recording(server.pid, home)
        profile = _read_samples(load.name, recording, home)
        running.result()
    shutil.rmtree(home)
    return profile


def _begin_recording(pid: int, home: Path) -> subprocess.Popen[str]:
    words = ["perf", "record", "--freq", str(FREQUENCY), "--event", "cpu-clock", "-g", "--pid", str(pid), "--output", "perf.data"]
    command = [*words, "--", "sleep", str(PROFILE_S)]
    return subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _read_samples(load: str, recording: subprocess.Popen[str], home: Path) -> Profile:
    _, errors = recording.communicate(timeout=60)
    if recording.returncode:
        raise LoadError(f"perf record failed: {errors.strip()[-200:]}")
    command = ["perf", "script", "--input", "perf.data", "--fields", "tid,ip,sym,dso"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise LoadError(f"perf script failed: {done.stderr.strip()[-200:]}")
    return make_profile(load, done.stdout.splitlines())


def make_profile(load: str, lines: Iterable[str]) -> Profile:
    """Count the samples of each kind in what `perf script` prints."""
    counts = Counter(kind_of(chain) for chain in chains(lines))
    return Profile(load, counts.total(), dict(counts))


def chains(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield each sample's frames, the innermost first. A line that begins without a space begins a sample."""
    chain: list[str] = []
    for line in lines:
        if line.startswith(("\t", "        ")) and line.strip():
            chain.append(line.strip())
        elif chain:
            yield chain
            chain = []
    if chain:
        yield chain


def kind_of(chain: list[str]) -> str:
    """Say what the process did when a sample was taken."""
    library = chain[0].rpartition("(")[2]
    if not library.startswith(KERNEL):
        return next((kind for part, kind in _LIBRARY_KINDS if part in library), REST)
    inside = [frame for frame in chain if frame.rpartition("(")[2].startswith(KERNEL)]
    for parts, kind in _KERNEL_KINDS:
        if any(part in frame for frame in inside for part in parts):
            return kind
    return OTHER_KERNEL

"""The load generator, bench/loadgen: compiled at first use, and run for one round."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench" / "loadgen"
CACHE = ROOT / ".cache"
COMPILER = "gcc"
FLAGS = ["-O2"]
SPARE_S = 60  # beyond the seconds of the load: the generator itself gives up after ten seconds of silence


class LoadError(Exception):
    """A load could not be run; the text is one sentence that says why."""


class Generated(msgspec.Struct):
    """The line that a source of load prints at its end."""

    requests: int
    messages: int
    refused: int
    seconds: float
    cpu_s: float
    p50_us: float
    p99_us: float
    p999_us: float
    codes: dict[str, int] = {}


def generator() -> Path:
    """Return the program. It is compiled when its sources have changed."""
    sources = sorted(SOURCES.glob("*.c"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in [*sources, *sorted(SOURCES.glob("*.h"))])).hexdigest()[:16]
    binary = CACHE / f"loadgen-{digest}"
    if not binary.exists():
        if shutil.which(COMPILER) is None:
            raise LoadError(
                f"{COMPILER} is not installed, and the load generator is written in C. Install it with: apt install gcc"
            )
        CACHE.mkdir(exist_ok=True)
        fresh = binary.with_suffix(".new")  # two runs may compile at once
        done = subprocess.run(
            [COMPILER, *FLAGS, "-o", str(fresh), *map(str, sources)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise LoadError(f"{COMPILER} does not compile bench/loadgen: {done.stderr.strip()}")
        fresh.replace(binary)
    return binary


def generate(mode: str, port: int, topic: str, seconds: float, options: Mapping[str, object]) -> Generated:
    """Run one round of a load against a broker on this machine."""
    given = {"port": port, "topic": topic, "seconds": seconds, **options}
    words = [text for key, value in given.items() for text in (f"--{key}", str(value))]
    return read_line([str(generator()), mode, *words], seconds)


def read_line(command: list[str], seconds: float, environment: Mapping[str, str] | None = None) -> Generated:
    """Run a source of load and decode the line that it prints."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + SPARE_S,
            env=dict(environment) if environment else None,
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"the load did not end within {seconds + SPARE_S:.0f} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise LoadError(last[0][:300])
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Generated)

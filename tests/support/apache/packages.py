"""Apache RocketMQ's own code, from Maven's packages: its jars, and small Java programs compiled against them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.tools import need

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "tests" / "lab" / "apache"
CACHE = ROOT / ".cache" / "apache-5.5.0"
JAVA_OPENS = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
]


JAVA_OPENS_BROKER = [
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
# Short lives: no time for the optimising compiler to pay for itself.
JAVA_SMALL = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:-UsePerfData", *JAVA_OPENS]


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Tests run in several processes: one prepares, the others wait for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def library() -> Path:
    """The folder of jars, resolved once (about a minute)."""
    need("java", "javac", "mvn")
    lib = CACHE / "lib"
    with only_one("fetch"):
        environment = {**os.environ, "LAB_DIR": str(CACHE), "LAB_LIB": str(lib)}
        subprocess.run([str(LAB), "fetch"], check=True, env=environment)
    return lib


def client_library(version: str) -> Path:
    """The folder of jars of an older client: what tests/lab/pom-VERSION.xml names."""
    need("java", "javac", "mvn")
    pom = LAB.with_name(f"pom-{version}.xml")
    lib = CACHE / f"client-{version}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"
    with only_one("fetch"):
        if not (lib / ".complete").exists():
            maven = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={lib}"]
            subprocess.run(maven, check=True)
            (lib / ".complete").touch()
    return lib


def compiled(source: Path, lib: Path | None = None) -> Path:
    """The class folder of a one-file Java program, compiled when its source changed; against 5.5.0 unless told otherwise.

    All programs of a folder are compiled at once: a start of the compiler costs as much as five of them. An older client has some
    of them only.
    """
    current = library()
    lib = lib or current
    sources = sorted(source.parent.glob("*.java")) if lib == current else [source]
    digest = hashlib.sha256(lib.name.encode() + b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    classes = CACHE / "classes" / f"{source.stem if lib != current else source.parent.name}-{digest}"
    with only_one("compile"):
        if not (classes / ".complete").exists():
            classes.mkdir(parents=True, exist_ok=True)
            quick = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]
            subprocess.run(["javac", *quick, "-nowarn", "-cp", f"{lib}/*", "-d", str(classes), *map(str, sources)], check=True)
            (classes / ".complete").touch()
    return classes


def run_java(
    source: Path, *arguments: str, stdin: bytes = b"", timeout_s: float = 120, client_version: str | None = None
) -> bytes:
    """Compile and run `source` (its class has the file's name) against Apache's jars, 5.5.0 by default; its standard output."""
    lib = library() if client_version is None else client_library(client_version)
    classes = compiled(source, lib)
    command = ["java", "-Xmx512m", *JAVA_SMALL, "-cp", f"{classes}:{lib}/*", source.stem, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{source.name} failed:\n{done.stderr.decode()[-4000:]}"
    return done.stdout

"""A class-data archive of Apache's classes, with which its Java processes start in a third of the CPU time.

Without an archive, each JVM reads and verifies some 6,000 classes from 160 jars. An archive (`java -Xshare:dump`) has them
parsed. It is made once, in about 20 s, and kept in the cache beside the jars:

    1. start a nameserver, a broker and a client that sends and consumes; each writes the list of classes that it loaded
    2. let Java write the archive of all these classes

A JVM uses the archive only when its class path begins with the same jars in the same order, so `class_path` puts the jars first
and the program last. A JVM that cannot use the archive (the jars have changed, say) starts without it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from pathlib import Path

from tests.support.apache.packages import CACHE, JAVA_OPENS_BROKER, JAVA_SMALL, client_library, compiled, library, only_one
from tests.support.ports import free_port

START_S_MAX = 180.0
CLIENT = Path(__file__).resolve().parents[2] / "interop" / "java" / "ClientScenes.java"
# What the client does, and what it prints when that is done. A broker may be slow to register: each line is tried until it works.
SCENE = {
    "producer p p-group": r"^\.$",
    f"send p sync - {b'archived'.hex()} - - 0 {b'hello'.hex()} -": "^SEND_OK ",
    f"push c c-group archived {b'*'.hex()}": "",
    "heard c 1 60000": rf"^{b'archived'.hex()} ",
}


def class_path(lib: Path, *programs: Path) -> str:
    """The class path of Apache's jars and of programs compiled against them, in the order that an archive needs."""
    return ":".join(map(str, [*sorted(lib.glob("*.jar")), *programs]))


def with_archive(*programs: Path) -> list[str]:
    """Java's options for the class path of Apache 5.5.0 and these programs, and for the archive of Apache's classes."""
    path = archive()
    options = [] if path is None else [f"-XX:SharedArchiveFile={path}"]
    return [*options, "-cp", class_path(library(), *programs)]


def program(source: Path, client_version: str = "5.5.0") -> list[str]:
    """Java's options that run a one-file program against Apache's jars of a version; the last is the program's class."""
    if client_version == "5.5.0":
        return [*with_archive(compiled(source)), source.stem]
    lib = client_library(client_version)
    return ["-cp", class_path(lib, compiled(source, lib)), source.stem]


@cache
def archive() -> Path | None:
    """The archive, made when it is not there; None on a machine whose Java cannot make one."""
    lib = library()
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    digest = hashlib.sha256(version + class_path(lib).encode()).hexdigest()[:16]
    folder = CACHE / f"archive-{digest}"
    made, log = folder / "classes.jsa", folder / "log"
    with only_one("archive"):
        if not log.exists():  # the log comes last, whether there is an archive or not
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                text = _make(folder, made)
            except (OSError, subprocess.SubprocessError, AssertionError) as failure:
                text = f"{failure!r}\nProcesses start without an archive."
                made.unlink(missing_ok=True)
            log.write_text(text)
    return made if made.exists() else None


def _make(folder: Path, made: Path) -> str:
    lists = _loaded_classes(folder)
    names = sorted({line for file in lists for line in file.read_text().splitlines() if not line.startswith("#")})
    classes = folder / "classes.txt"
    classes.write_text("\n".join(names) + "\n")
    dump = ["java", "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}"]
    done = subprocess.run([*dump, "-cp", class_path(library())], capture_output=True, timeout=START_S_MAX * 2, check=True)
    return (done.stdout + done.stderr).decode(errors="replace")


def _loaded_classes(home: Path) -> list[Path]:
    """Start a nameserver, a broker and a client, and return the lists of the classes that they loaded."""
    names_port, port = free_port(), free_port(-2, 1)
    nameserver = f"127.0.0.1:{names_port}"
    settings = {
        "namesrv": {"listenPort": names_port, "bindAddress": "127.0.0.1"},
        "broker": {
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": nameserver,
            "storePathRootDir": home / "store",
            "storePathCommitLog": home / "store" / "commitlog",
            "mappedFileSizeCommitLog": 16_777_216,
            "diskMaxUsedSpaceRatio": 95,
        },
    }
    running: list[subprocess.Popen[bytes]] = []
    lists = [home / f"{name}.txt" for name in (*settings, "client")]

    def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
        options = [*JAVA_SMALL, *JAVA_OPENS_BROKER, f"-XX:DumpLoadedClassList={home / name}.txt"]
        own = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-Dtls.server.mode=disabled"]
        with (home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                ["java", *options, *own, *map(str, arguments)], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=home
            )
        running.append(process)
        return process

    def wait_for(name: str, pattern: str, again: Callable[[], None] = lambda: None) -> None:
        """Until the process has printed `pattern`. Call `again` once a second."""
        deadline = time.monotonic() + START_S_MAX
        for tries in count():
            if tries % 10 == 0:
                again()
            if re.search(pattern, (home / f"{name}.log").read_text(errors="replace"), re.MULTILINE):
                return
            assert running[-1].poll() is None, f"the {name} ended"
            assert time.monotonic() < deadline, f"the {name} was not ready in {START_S_MAX} s"
            time.sleep(0.1)

    def say(line: str) -> None:
        stdin = running[-1].stdin
        assert stdin is not None
        stdin.write(f"{line}\n".encode())
        stdin.flush()

    try:
        for name, main in {"namesrv": "namesrv.NamesrvStartup", "broker": "broker.BrokerStartup"}.items():
            file = home / f"{name}.conf"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings[name].items()))
            start(name, "-cp", class_path(library()), f"org.apache.rocketmq.{main}", "-c", file)
            wait_for(name, "boot success")
        start("client", "-cp", class_path(library(), compiled(CLIENT)), CLIENT.stem, nameserver)
        for line, answer in SCENE.items():
            wait_for("client", answer, partial(say, line))
    finally:
        for process in running:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        shutil.rmtree(home / "store", ignore_errors=True)
    return lists

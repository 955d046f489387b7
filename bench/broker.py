"""Cost of a broker, ours and Apache's in one run: CPU time of its process per message, memory, start, CPU at rest.

The load comes from loadgen.c, which this module compiles: JSON headers, 1 KiB bodies, four connections with 64 requests in flight
each. Both brokers warm up and are then measured in turns, because the speed of a shared machine varies; the best round of each
counts. Needs gcc, Java and Maven; without Java, only our broker is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.apache import JAVA_OPENS_BROKER, library
from tests.support.apache_cluster import START_S_MAX, JavaProcess, send_request
from tests.support.ports import free_port
from tests.support.skyrocket_process import Skyrocket, SkyrocketBroker, SkyrocketNameserver, registered

from bench import Figure
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode

TOPIC = "BenchTopic"
CONNECTIONS, WINDOW, QUEUES, BODY_BYTES, BATCH = 4, 64, 4, 1024, 32
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "6"))
WARM_UP_SENDS = 150_000  # until the JVM has compiled its hot methods
REST_S, IDLE_S = 2.0, 10.0
STORE = {"mappedFileSizeCommitLog": 1 << 30, "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000}  # the defaults of both


class Load(NamedTuple):
    """The work of the load generator in one round."""

    mode: str
    requests: int
    per_request: int
    old: bool = False  # pull the oldest messages instead of the newest

    @property
    def messages(self) -> int:
        return self.requests * self.per_request


SENDS = Load("send", 40_000, 1)
BATCHES = Load("batch", 1_600, BATCH)
PULLS = Load("pull", 6_000, BATCH)
OLD_PULLS = Load("pull", 6_000, BATCH, old=True)
SPAN = 10_000  # messages of each queue that the pulls repeat


class Server(NamedTuple):
    name: str
    pid: int
    port: int


def loadgen() -> Path:
    """Return the load generator. Compiles it when its source is newer."""
    source = Path(__file__).with_name("loadgen.c")
    binary = source.parents[1] / ".cache" / "loadgen"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        binary.parent.mkdir(exist_ok=True)
        subprocess.run(["gcc", "-O2", "-o", str(binary), str(source)], check=True)
    return binary


# --- CPU time and memory of a process


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


# --- servers


APACHE = "Apache"
APACHE_IN_LAB = "Apache as in tests/lab"
_WHOLE_JVM = ["-XX:-UseSerialGC", "-XX:TieredStopAtLevel=4", "-Xss1m", "-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g"]


class ApacheBroker(NamedTuple):
    """A configuration of Apache's broker."""

    name: str
    java: list[str]
    settings: dict[str, object]


APACHES = [
    # With the garbage collector of Apache's start script, and the store's defaults.
    ApacheBroker(APACHE, [*_WHOLE_JVM, "-XX:+UseG1GC"], dict(STORE)),
    # As `tests/lab/apache broker` starts it: Java's default collector, and segments of 64 MiB.
    ApacheBroker(APACHE_IN_LAB, _WHOLE_JVM, {"mappedFileSizeCommitLog": 64 << 20}),
]


@contextmanager
def apache_broker(home: Path, nameserver: str, how: ApacheBroker) -> Iterator[Server]:
    port = free_port(-2, 1)
    settings = {
        "brokerName": home.name,
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "namesrvAddr": nameserver,
        "storePathRootDir": home / "store",
        "storePathCommitLog": home / "store" / "commitlog",
        "diskMaxUsedSpaceRatio": 95,
        **how.settings,
    }
    home.mkdir()
    path = home / "broker.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    main = ["-cp", f"{library()}/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(path)]
    broker = JavaProcess("Apache's broker", home, [*how.java, *JAVA_OPENS_BROKER, *main])
    try:
        deadline = time.monotonic() + START_S_MAX
        while f"127.0.0.1:{port}" not in registered(nameserver):
            assert broker.process.poll() is None, broker.log_tail()
            assert time.monotonic() < deadline, broker.log_tail()
            time.sleep(0.1)
        yield Server(how.name, broker.process.pid, port)
    finally:
        broker.kill()


@contextmanager
def all_servers(home: Path) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        names = stack.enter_context(SkyrocketNameserver(home / "names"))
        ours = stack.enter_context(SkyrocketBroker(home / "ours", names.nameserver, {"brokerName": "ours", **STORE}))
        assert ours.process is not None
        servers = [Server("ours", ours.process.pid, int(ours.address.split(":")[1]))]
        if shutil.which("java"):
            for number, how in enumerate(APACHES):
                servers.append(stack.enter_context(apache_broker(home / f"apache{number}", names.nameserver, how)))
        yield servers


# --- measuring


def end_of_queues(server: Server) -> int:
    """Return the lowest end offset of the queues."""
    ends = []
    for queue_id in range(QUEUES):
        header = GetMaxOffsetRequestHeader(topic=TOPIC, queue_id=queue_id)
        answer = send_request(
            ("127.0.0.1", server.port), Command(RequestCode.GET_MAX_OFFSET, fields=header.to_fields(), opaque=1)
        )
        assert answer is not None, f"{server.name} does not answer"
        ends.append(int(answer.fields["offset"]))
    return min(ends)


def run_load(server: Server, load: Load) -> float | None:
    """Return the CPU µs of the server per message, or None when it refused messages or stalled, so that the round is void."""
    first = 0 if load.old or load.mode != "pull" else end_of_queues(server) - SPAN
    words: tuple[str | int, ...] = (
        load.mode,
        server.port,
        TOPIC,
        CONNECTIONS,
        WINDOW,
        load.requests,
        BODY_BYTES,
        load.per_request,
    )
    words += (first, SPAN) if load.mode == "pull" else ()
    before_s = cpu_s(server.pid)
    done = subprocess.run([loadgen(), *map(str, words)], capture_output=True, check=False)
    spent_s = cpu_s(server.pid) - before_s
    if done.returncode != 0 or json.loads(done.stdout)["refused"]:
        return None
    return spent_s / load.messages * 1e6


def run_in_turns(servers: list[Server], load: Load) -> dict[str, float]:
    """Run the load on the servers in turns, and return the best round of each."""
    best = dict.fromkeys([server.name for server in servers], float("inf"))
    for _ in range(ROUNDS):
        for server in servers:
            best[server.name] = min(best[server.name], run_load(server, load) or float("inf"))
    return best


LOADS = {  # each load, and the aim for our share of Apache's cost
    "a 1 KiB send": (SENDS, "a third"),
    "a batched message, 32 a request": (BATCHES, ""),
    "a pulled message, 32 a pull": (PULLS, "half"),
    "a pulled message, 32 a pull, of the oldest": (OLD_PULLS, ""),
}


def cost_figures(home: Path) -> Iterator[Figure]:
    with all_servers(home) as servers:
        for server in servers:
            for load in (*[SENDS] * (WARM_UP_SENDS // SENDS.requests + 1), BATCHES, PULLS, PULLS):
                run_load(server, load)
        for name, (load, bar) in LOADS.items():
            best = run_in_turns(servers, load)
            aim = f"; the aim is {bar}" if bar else ""
            yield Figure(f"CPU of {name}, ours", f"{best['ours']:.2f} µs")
            for apache, cost in best.items():
                if apache != "ours":
                    yield Figure(f"CPU of {name}, {apache}", f"{cost:.2f} µs", f"ours is {best['ours'] / cost:.2f} of it{aim}")
        for server in servers:
            yield Figure(f"memory after these loads, {server.name}", f"{resident_mb(server.pid):.0f} MB")


def ready_s(home: Path) -> float:
    """Return the seconds from the command to its ready line, with an empty directory."""
    command = [str(Path(sys.executable).with_name("skyrocket"))]
    flags = ["run", "--data", str(home), "--namesrv-port", "0", "--port", "0"]
    started = time.monotonic()
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        spent = time.monotonic() - started
        process.kill()
    assert b"ready" in line, line
    return spent


def rest_figures(home: Path) -> Iterator[Figure]:
    with Skyrocket(home / "rest", STORE) as run:
        assert run.process is not None
        pid = run.process.pid
        time.sleep(REST_S)
        yield Figure("resident memory at rest", f"{resident_mb(pid):.0f} MB", "under 80")
        before_s = cpu_s(pid)
        time.sleep(IDLE_S)
        yield Figure("CPU at rest", f"{(cpu_s(pid) - before_s) / IDLE_S:.2%}", "under 1 %")
    yield Figure(
        "from the command to ready", f"{min(ready_s(home / f'ready{number}') for number in range(5)):.2f} s", "under 1 s"
    )


def figures() -> Iterator[Figure]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        yield from rest_figures(home)
        yield from cost_figures(home)
    finally:
        shutil.rmtree(home)

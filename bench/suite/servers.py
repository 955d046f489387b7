"""The servers that are measured: our broker, Apache RocketMQ 5.5.0's and Kafka 4, each a process on loopback.

    Server.pids   every process of the server, for pauses: the broker and its nameserver
    Server.pid    the broker, whose CPU time counts
    Server.nodes  the brokers whose CPU time counts, where there are several (`replicated`)

Each broker has a nameserver of its own, so that Apache's clients find that broker only. Both nameservers are ours and idle.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.apache.cluster import START_S_MAX, JavaProcess, send_request
from tests.support.apache.packages import JAVA_OPENS_BROKER, library
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import FULL_DISK, SkyrocketBroker, SkyrocketNameserver, registered

from bench import _kafka
from bench.suite.processes import cpu_s
from bench.suite.record import APACHE, KAFKA, OURS
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode

# What both brokers have by default.
STORE: dict[str, object] = {"mappedFileSizeCommitLog": 1 << 30, "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000}
SYNC_FLUSH: dict[str, object] = {"flushDiskType": "SYNC_FLUSH"}
# Tests start Java with a small collector and without its optimising compiler. Here it has both, and the heap of a small machine.
WHOLE_JVM = ["-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4", "-Xss1m"]
BROKER_HEAP = ["-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g"]


class Server(NamedTuple):
    name: str
    pid: int
    pids: tuple[int, ...]
    port: int
    nameserver: str  # Kafka: its own address
    ready_s: float = 0.0  # from the command until a nameserver knew the broker
    nodes: tuple[int, ...] = ()

    def cpu_s(self) -> float:
        """CPU seconds of all brokers since their start."""
        return sum(map(cpu_s, self.nodes or (self.pid,)))


@contextmanager
def ours(home: Path, settings: Mapping[str, object]) -> Iterator[Server]:
    with SkyrocketNameserver(home / "names") as names:
        every = {"brokerName": "bench", **STORE, **settings}
        began_s = time.monotonic()
        with SkyrocketBroker(home / "broker", names.nameserver, every, home / "store") as broker:
            assert names.process is not None
            assert broker.process is not None
            pid, ready_s = broker.process.pid, time.monotonic() - began_s
            yield Server(OURS, pid, (pid, names.process.pid), int(broker.address.split(":")[1]), names.nameserver, ready_s)


@contextmanager
def apache(home: Path, settings: Mapping[str, object]) -> Iterator[Server]:
    with SkyrocketNameserver(home / "names") as names:
        began_s = time.monotonic()
        with apache_broker(home, names.nameserver, settings) as (pid, port):
            assert names.process is not None
            yield Server(APACHE, pid, (pid, names.process.pid), port, names.nameserver, time.monotonic() - began_s)


@contextmanager
def apache_broker(home: Path, nameserver: str, settings: Mapping[str, object]) -> Iterator[tuple[int, int]]:
    """Start one of Apache's brokers. Yield its process id and its port, once the nameserver knows it."""
    port = free_port(-2, 1)
    every = {
        "brokerName": "bench",
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "namesrvAddr": nameserver,
        "storePathRootDir": home / "store",
        "storePathCommitLog": home / "store" / "commitlog",
        "diskMaxUsedSpaceRatio": FULL_DISK["diskMaxUsedSpaceRatio"],
        **STORE,
        **settings,
    }
    path = home / "broker.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in every.items()))
    main = ["-cp", f"{library()}/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(path)]
    broker = JavaProcess("Apache's broker", home / "broker", [*WHOLE_JVM, *BROKER_HEAP, *JAVA_OPENS_BROKER, *main])
    try:
        deadline = time.monotonic() + START_S_MAX
        while f"127.0.0.1:{port}" not in registered(nameserver):
            assert broker.process.poll() is None, broker.log_tail()
            assert time.monotonic() < deadline, broker.log_tail()
            time.sleep(0.02)
        yield broker.process.pid, port
    finally:
        broker.kill()


@contextmanager
def kafka(home: Path, settings: Mapping[str, object]) -> Iterator[Server]:  # noqa: ARG001 — its topics have settings, not the server
    with _kafka.kafka_server(home, [*WHOLE_JVM, *BROKER_HEAP]) as server:
        yield Server(KAFKA, server.pid, (server.pid,), int(server.address.split(":")[1]), server.address)


STARTS = {OURS: ours, APACHE: apache, KAFKA: kafka}


def missing(name: str) -> str | None:
    """Say why a server cannot be measured on this machine, or None."""
    tools = {OURS: (), APACHE: ("java", "javac", "mvn"), KAFKA: ("java", "mvn")}[name]
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return f"{name} was not measured: {', '.join(absent)} is not installed" if absent else None


def count_messages(server: Server, topic: str, queues: int = 16) -> int:
    """Count the messages that consumers of a topic can read."""
    total = 0
    for queue_id in range(queues):
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        request = Command(RequestCode.GET_MAX_OFFSET, fields=header.to_fields(), opaque=1)
        answer = send_request(("127.0.0.1", server.port), request)
        assert answer is not None, f"{server.name} does not answer"
        total += int(answer.fields.get("offset", 0))
    return total

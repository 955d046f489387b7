"""Apache RocketMQ 5.5.0 on loopback: a nameserver, brokers over store directories, and Apache's Java client.

Every process has a home of its own under one temporary folder, free ports, a small heap, and is ended by its id: politely
(SIGTERM, which makes a broker close its store) or as a crash (SIGKILL). Whether one is ready is found out by asking it.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType

from skyrocket.protocol.bodies import ClusterInfo
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.fastjson.codec import decode
from tests.support.apache.archive import program, with_archive
from tests.support.apache.packages import JAVA_OPENS_BROKER, JAVA_SMALL
from tests.support.ports import free_port

START_S_MAX = 300.0
STOP_S_MAX = 180.0
ASK_S_MAX = 300.0  # longer than what the client itself waits for
ANSWER_S_MAX = 30.0
UPDATE_BROKER_CONFIG = 25
GET_BROKER_CLUSTER_INFO = 106
JAVA_CLIENT = Path(__file__).resolve().parents[2] / "interop" / "java" / "StoreClient.java"

# A server that takes TLS makes itself a certificate when it starts, which costs more than all the rest of its start.
NO_TLS = ["-Dtls.server.mode=disabled"]
# Work that a broker does beside requests. A thread spins until the first flush of transaction metrics. Each flush of
# the timer wheel compares 38 MB; a test that kills a broker with timers sets the interval itself.
# When the thread that writes op messages has written nothing for its interval, it waits until a moment in the past: from then on
# it takes a whole core. With a limit of one byte, it writes each op message at once, and its interval may be an hour.
LITTLE_WORK = {
    "transactionMetricFlushInterval": 500,
    "timerFlushIntervalMs": 60_000,
    "transactionOpBatchInterval": 3_600_000,
    "transactionOpMsgMaxSize": 1,
}
# The timer wheel costs a second of CPU time in half a minute without a timer. For brokers whose tests have no timers. A broker
# without a wheel cannot delete a topic.
NO_TIMERS = {"timerWheelEnable": "false"}
OPS_IN_BATCHES = {"transactionOpBatchInterval": 300, "transactionOpMsgMaxSize": 4096}
# A test that sets OPS_IN_BATCHES has the thread that spins. At a lower priority it takes the processor time that others leave.
SPINNING = "TransactionalOp"  # the first 15 characters of the thread's name
SPINNING_NICE = 10

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29
# A broker without work has threads that wake up every millisecond. The kernel may delay each of them so far, to wake several at
# once: half the CPU time of a broker that waits. Clients keep their time, because tests look at what they do within milliseconds.
SERVER_TIMER_SLACK_NS = 5_000_000


def _die_with_parent() -> None:
    """So that nothing is left running when the tests themselves are killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prepare_server() -> None:
    _die_with_parent()
    _LIBC.prctl(_PR_SET_TIMERSLACK, SERVER_TIMER_SLACK_NS)


class NotStartedError(AssertionError):
    """A process of Apache's ended, or did not answer in time; the text has the end of its log."""


class JavaProcess:
    def __init__(
        self, name: str, home: Path, arguments: list[str], *, pipes: bool = False, prepare: Callable[[], None] = _die_with_parent
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.home = home
        self._log = home / "output.log"
        pipe = subprocess.PIPE if pipes else subprocess.DEVNULL
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *JAVA_SMALL, f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", *arguments],
                stdin=pipe,
                stdout=subprocess.PIPE if pipes else log,
                stderr=log,
                cwd=home,
                env={**os.environ, "ROCKETMQ_HOME": str(home)},
                preexec_fn=prepare,  # noqa: PLW1509 system calls only: it takes no lock that another thread may hold
            )

    def log_tail(self) -> str:
        """The end of what it printed, and of the errors it logged."""
        lines = self._log.read_text(errors="replace").splitlines()[-30:]
        for log in sorted((self.home / "logs").rglob("*.log")):
            lines += [line for line in log.read_text(errors="replace").splitlines() if " ERROR " in line or " WARN " in line][
                -15:
            ]
        return "\n".join(lines)

    def lower_priority(self, thread: str, nice: int) -> None:
        """Of all threads with this name."""
        for task in Path(f"/proc/{self.process.pid}/task").glob("*"):
            with suppress(OSError):  # some threads end meanwhile
                if (task / "comm").read_text().strip() == thread:
                    os.setpriority(os.PRIO_PROCESS, int(task.name), nice)

    def kill(self) -> None:
        """As a crash: it does nothing more."""
        self.process.kill()
        self._wait_for_end()

    def stop(self) -> None:
        """As an operator does; killed when it does not end in time."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not stop:\n{self.log_tail()}") from None
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        self.process.wait(STOP_S_MAX)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Client(JavaProcess):
    """Apache's client (java/StoreClient.java), asked line by line."""

    def __init__(self, home: Path, nameserver: str) -> None:
        arguments = ["-Xmx256m", *program(JAVA_CLIENT), nameserver]
        super().__init__("the Java client", home, arguments, pipes=True)
        self._heard = b""

    def ask(self, verb: str, *arguments: str | int) -> list[list[str]]:
        """The answer's lines, each cut at its blanks."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([verb, *map(str, arguments)]).encode() + b"\n")
        self.process.stdin.flush()
        lines = self._answer(verb)
        for line in lines:
            assert not line.startswith("!"), f"{verb} failed: {bytes.fromhex(line[1:]).decode()}\n{self.log_tail()}"
        return [line.split(" ") for line in lines]

    def _answer(self, verb: str) -> list[str]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + ASK_S_MAX
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not (self._heard == b".\n" or self._heard.endswith(b"\n.\n")):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise AssertionError(f"{verb} was not answered in {ASK_S_MAX} s:\n{self.log_tail()}")
                piece = os.read(self.process.stdout.fileno(), 1 << 20)
                assert piece, f"the Java client ended:\n{self.log_tail()}"
                self._heard += piece
        lines = self._heard.decode().split("\n")[:-2]
        self._heard = b""
        return lines


class ApacheCluster:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._processes: list[JavaProcess] = []
        self._brokers = 0
        port = free_port()
        self.nameserver = f"127.0.0.1:{port}"
        self._nameserver_at = ("127.0.0.1", port)
        settings = self._settings("namesrv", {"listenPort": port, "bindAddress": "127.0.0.1"})
        namesrv = self._start("namesrv", "-Xmx128m", "org.apache.rocketmq.namesrv.NamesrvStartup", settings)
        self._wait(namesrv, lambda: self._registered() is not None)

    def __enter__(self) -> ApacheCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in reversed(self._processes):
            process.kill()

    @cached_property
    def client(self) -> Client:
        """Apache's client, started by the first who asks for it."""
        client = Client(self._home / "client", self.nameserver)
        self._processes.append(client)
        return client

    def broker(self, store: Path, settings: Mapping[str, object]) -> JavaProcess:
        """A broker over the directory `store`, serving when this returns. NotStartedError when it ends instead."""
        self._brokers += 1
        name = f"broker{self._brokers}"
        port = int(str(settings.get("listenPort") or free_port(-2, 1)))  # it listens on the two beside it too
        every = {
            "brokerClusterName": "Test",
            "brokerName": name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": self.nameserver,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "diskMaxUsedSpaceRatio": 95,
            "fileReservedTime": 720,
            "mappedFileSizeTimerLog": 1_048_576,
            **LITTLE_WORK,
            **settings,
        }
        path = self._settings(name, every)
        broker = self._start(name, "-Xmx512m", "org.apache.rocketmq.broker.BrokerStartup", path)
        self._wait(broker, lambda: f"127.0.0.1:{port}" in (self._registered() or []) or self._hurry(port))
        broker.lower_priority(SPINNING, SPINNING_NICE)
        return broker

    def _hurry(self, port: int) -> bool:
        """A broker whose first registration came too early for its own client tries again after ten seconds, or when told so."""
        send_request(("127.0.0.1", port), Command(UPDATE_BROKER_CONFIG, opaque=1, body=b"brokerPermission=6\n"))
        return False

    def _settings(self, name: str, settings: Mapping[str, object]) -> Path:
        (self._home / name).mkdir(parents=True)
        path = self._home / name / "settings.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _start(self, name: str, heap: str, main_class: str, settings: Path) -> JavaProcess:
        options = [heap, "-XX:MaxDirectMemorySize=256m", *JAVA_OPENS_BROKER, *NO_TLS, *with_archive()]
        arguments = [*options, main_class, "-c", str(settings)]
        process = JavaProcess(name, self._home / name, arguments, prepare=_prepare_server)
        self._processes.append(process)
        return process

    def _wait(self, process: JavaProcess, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not is_ready():
            if process.process.poll() is not None:
                raise NotStartedError(f"{process.name} ended with {process.process.returncode}:\n{process.log_tail()}")
            if time.monotonic() > deadline:
                raise NotStartedError(f"{process.name} did not answer in {START_S_MAX} s:\n{process.log_tail()}")
            time.sleep(0.05)

    def _registered(self) -> list[str] | None:
        """The addresses of the brokers that the nameserver knows; None when it does not answer."""
        answer = send_request(self._nameserver_at, Command(GET_BROKER_CLUSTER_INFO, opaque=1))
        if answer is None:
            return None
        brokers = decode(answer.body, ClusterInfo).broker_addr_table or {}
        return [address for broker in brokers.values() for address in (broker.broker_addrs or {}).values()]


def send_request(server: tuple[str, int], request: Command, tls: ssl.SSLContext | None = None) -> Command | None:
    """The answer of a server; None while it gives none."""
    try:
        plain = socket.create_connection(server, timeout=1)
        plain.settimeout(ANSWER_S_MAX)
        with plain if tls is None else tls.wrap_socket(plain, server_hostname=server[0]) as connection:
            connection.sendall(encode_command(request))
            decoder = CommandDecoder()
            while piece := connection.recv(65536):
                for command in decoder.feed(piece):
                    return command
    except OSError:
        pass
    return None

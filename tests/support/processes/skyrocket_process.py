"""skyrocket's own processes on loopback, started by the command line as a user starts them.

    Skyrocket(home)                    `skyrocket run`: nameserver and broker in one process, over home/data
    SkyrocketNameserver(home)          `skyrocket namesrv`
    SkyrocketBroker(home, "host:port") `skyrocket broker`, over home/store
    SkyrocketProxy(home, "host:port")  `skyrocket proxy`, in front of the cluster of these nameservers

Each has its own free ports and a small store, and is ended by its id: `stop` politely (SIGTERM), `kill` as a crash. `start` takes
the same ports and the same directory again. Whether one is ready is found out by asking it. With `namespace` it runs in a network
namespace (`tests/support/processes/network_namespaces.py`), on the address that bindAddress says.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from skyrocket.net.local_address import is_loopback
from skyrocket.net.tls import client_context
from skyrocket.protocol.bodies import ClusterInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.requests import RequestCode
from tests.support.apache.cluster import send_request
from tests.support.ports import free_port
from tests.support.processes.network_namespaces import enter_namespace

START_S_MAX = 180.0
STOP_S_MAX = 180.0
# A machine whose disk is rather full can run tests, too: no file goes because of it.
FULL_DISK = {"diskMaxUsedSpaceRatio": 95, "diskSpaceCleanForciblyRatio": 95, "diskSpaceWarningLevelRatio": 95}
SMALL_STORE = {"mappedFileSizeCommitLog": 16_777_216, "maxHashSlotNum": 5000, "maxIndexNum": 20_000, **FULL_DISK}

ROOT = Path(__file__).resolve().parents[3]
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1

Self = TypeVar("Self", bound="SkyrocketProcess")


def _die_with_parent() -> None:
    """So that nothing is left running when the tests themselves are killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class DescriptorLimits(NamedTuple):
    """How many files and connections a process may have open: its soft limit, and how far it may raise that."""

    soft: int
    hard: int


class SkyrocketProcess:
    module = "skyrocket"  # what it runs: `python -m skyrocket …`

    def __init__(
        self,
        name: str,
        home: Path,
        arguments: list[str],
        is_ready: Callable[[], bool],
        descriptors: DescriptorLimits | None = None,
        namespace: str = "",
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._descriptors = descriptors
        self._namespace = namespace
        self.name = name
        self.home = home
        self._arguments = arguments
        self._is_ready = is_ready
        self._log = home / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def launch(self) -> None:
        """Begin to start; whether it serves is for `start` to wait for."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env={"SKYROCKET_CONSOLE": "false", **os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": _python_path()},
                preexec_fn=self._prepare,  # noqa: PLW1509 system calls only: it takes no lock that another thread may hold
            )

    def _prepare(self) -> None:
        _die_with_parent()
        if self._descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._descriptors)
        if self._namespace:
            enter_namespace(self._namespace)

    def start(self) -> None:
        """Serving when this returns."""
        self.launch()
        assert self.process is not None
        deadline = time.monotonic() + START_S_MAX
        while not self._is_ready():
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"{self.name} did not answer in {START_S_MAX} s:\n{self.log_tail()}"
            time.sleep(0.02)

    def stop(self) -> None:
        """As an operator does. It must end by itself, and without complaint."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop in {STOP_S_MAX} s:\n{self.log_tail()}") from None
        assert code == 0, f"{self.name} ended with {code}:\n{self.log_tail()}"

    def kill(self) -> None:
        """As a crash: it does nothing more."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_S_MAX)

    def log_tail(self, lines: int = 40) -> str:
        """The end of what it printed and logged."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def first_trace(self) -> str:
        """The first exception that it logged, with its stack; nothing when there is none."""
        _, found, after = self._log.read_text(errors="replace").partition("Traceback (most recent call last)")
        return (found + after)[:3000]

    def complaints(self) -> list[str]:
        """The lines that it logged as errors, and the traces of exceptions."""
        logged = self._log.read_text(errors="replace").splitlines()
        return [line for line in logged if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]


def _python_path() -> str:
    """Where programs of the tests are found, too."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


class Skyrocket(SkyrocketProcess):
    def __init__(
        self,
        home: Path,
        settings: Mapping[str, object] | None = None,
        names_port: int = 0,
        descriptors: DescriptorLimits | None = None,
    ) -> None:
        names_port, port = names_port or free_port(), free_port(-2, 1)
        self.nameserver = f"127.0.0.1:{names_port}"
        self.address = f"127.0.0.1:{port}"
        self.data = home / "data"
        flags = ["--data", str(self.data), "--namesrv-port", str(names_port), "--port", str(port)]
        arguments = ["run", *flags, *_sets({**SMALL_STORE, **(settings or {})})]
        tls = tls_of(settings or {})
        super().__init__("run", home, arguments, lambda: self.address in registered(self.nameserver, tls), descriptors)


class SkyrocketNameserver(SkyrocketProcess):
    def __init__(self, home: Path, settings: Mapping[str, object] | None = None, namespace: str = "") -> None:
        port = free_port()
        self.nameserver = f"{_host_of(settings)}:{port}"
        home.mkdir(parents=True, exist_ok=True)
        config = home / "namesrv.conf"
        every = {"listenPort": port, "kvConfigPath": home / "kvConfig.json", **(settings or {})}
        own = {key: value for key, value in every.items() if not key.startswith("tls.client.")}  # it connects to nobody
        config.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        tls = tls_of(every)
        arguments = ["namesrv", "-c", str(config), *_insecure(settings)]
        super().__init__("namesrv", home, arguments, lambda: cluster_info(self.nameserver, tls) is not None, namespace=namespace)


class SkyrocketBroker(SkyrocketProcess):
    def __init__(
        self,
        home: Path,
        nameservers: str,
        settings: Mapping[str, object] | None = None,
        store: Path | None = None,
        namespace: str = "",
    ) -> None:
        """`nameservers` as clients write them: host:port;host:port. It is ready when the first of them knows it."""
        port = int(str((settings or {}).get("listenPort") or free_port(-2, 1)))
        self.address = f"{_host_of(settings)}:{port}"
        self.store = store or home / "store"
        every = {"listenPort": port, "storePathRootDir": self.store, **SMALL_STORE, **(settings or {})}
        first = nameservers.split(";", maxsplit=1)[0]
        arguments = ["broker", "-n", nameservers, *_sets(every), *_insecure(settings)]
        tls = tls_of(every)  # as the broker itself connects to the nameserver
        super().__init__("broker", home, arguments, lambda: self.address in registered(first, tls), namespace=namespace)


class SkyrocketProxy(SkyrocketProcess):
    def __init__(self, home: Path, nameservers: str, settings: Mapping[str, object] | None = None, *, brokers: int = 1) -> None:
        """It is ready when it shows so many brokers."""
        port = free_port()
        self.address = f"127.0.0.1:{port}"  # for clients, as the nameserver's
        home.mkdir(parents=True, exist_ok=True)
        every = {"remotingListenPort": port, "namesrvAddr": nameservers, **(settings or {})}
        config = home / "proxy.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in every.items()))
        tls = tls_of(every)
        super().__init__("proxy", home, ["proxy", "-c", str(config)], lambda: self._shows(brokers, tls))

    def _shows(self, brokers: int, tls: ssl.SSLContext | None) -> bool:
        return len(registered(self.address, tls)) >= brokers if brokers else "is ready on" in self.log_tail()


def _host_of(settings: Mapping[str, object] | None) -> str:
    return str((settings or {}).get("bindAddress", "127.0.0.1"))


def _insecure(settings: Mapping[str, object] | None) -> list[str]:
    """A server in a network of namespaces listens beyond loopback."""
    return [] if is_loopback(_host_of(settings)) else ["--insecure"]


def _sets(settings: Mapping[str, object]) -> list[str]:
    return [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]


def tls_of(settings: Mapping[str, object]) -> ssl.SSLContext | None:
    """How to reach a server with these settings; None for plain connections. Any server is believed."""
    if "tls.server.certPath" not in settings or settings.get("tls.server.mode", "enforcing") != "enforcing":
        return None
    own = [str(settings.get(f"tls.client.{key}", "")) for key in ("certPath", "keyPath")]
    return client_context(*own, verifies=False)


def cluster_info(nameserver: str, tls: ssl.SSLContext | None = None) -> ClusterInfo | None:
    """What a nameserver knows of brokers; None when it does not answer."""
    host, port = nameserver.split(":")
    answer = send_request((host, int(port)), Command(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=1), tls)
    return None if answer is None else decode(answer.body, ClusterInfo)


def registered(nameserver: str, tls: ssl.SSLContext | None = None) -> list[str]:
    """The addresses of the brokers that a nameserver knows."""
    info = cluster_info(nameserver, tls)
    brokers = (info.broker_addr_table if info is not None else None) or {}
    return [address for broker in brokers.values() for address in (broker.broker_addrs or {}).values()]


def answers(port: int, code: int = RequestCode.GET_BROKER_CONFIG) -> bool:
    """Whether a server on loopback answers a request: a broker, unless the code is one for nameservers."""
    return send_request(("127.0.0.1", port), Command(code, opaque=1)) is not None

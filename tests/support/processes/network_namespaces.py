"""Hosts on one machine: network namespaces, each with an address, joined by a bridge that has a namespace of its own.

    with Network("n0", "n1", "client") as network:
        with network.entered("client"):       sockets that this thread opens, and threads that it starts, are in the namespace
            network.cut("n0")                 n0 reaches nobody, and nobody reaches n0: packets vanish
            network.join("n0")
            with network.one_way([("n0", "n1")]):    what n0 sends to n1 vanishes; what n1 sends arrives

The namespace of the machine gets no interface, address or route. All namespaces are deleted at the end.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

import pytest

from tests.support.tools import need

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"
_BRIDGE = "bridge"
_NOBODY = "02:00:00:00:00:01"
_NETWORK = "198.18.0"  # of 198.18.0.0/15, which is reserved for tests of networks


class Network:
    def __init__(self, *hosts: str) -> None:
        need_namespaces()
        self._addresses = {host: f"{_NETWORK}.{number}" for number, host in enumerate(hosts, 1)}
        self._made: list[str] = []
        try:
            self._make()
        except BaseException:
            self.delete()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.delete()

    def _make(self) -> None:
        for name in (_BRIDGE, *self._addresses):
            _ip("netns", "add", self.namespace(name))
            self._made.append(self.namespace(name))
        bridge = self.namespace(_BRIDGE)
        _ip("-n", bridge, "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", bridge, "link", "set", _BRIDGE, "up")
        for host, address in self._addresses.items():
            own = self.namespace(host)
            _ip("-n", bridge, "link", "add", _port(host), "type", "veth", "peer", "name", "eth0", "netns", own)
            _ip("-n", bridge, "link", "set", _port(host), "up")
            _ip("-n", own, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", own, "link", "set", "eth0", "up")
            _ip("-n", own, "link", "set", "lo", "up")
            self.join(host)

    def delete(self) -> None:
        """Delete the namespaces, and with them their interfaces."""
        while self._made:
            _ip("netns", "delete", self._made.pop())

    def namespace(self, host: str) -> str:
        """The name of a host's namespace, as `ip netns` shows it. Tests that run at the same time have others."""
        return f"skyrocket-{os.getpid()}-{host}"

    def address(self, host: str) -> str:
        return self._addresses[host]

    def cut(self, host: str) -> None:
        """Take a host off the bridge. Its connections stay open, and nothing arrives."""
        _ip("-n", self.namespace(_BRIDGE), "link", "set", _port(host), "nomaster")

    def join(self, host: str) -> None:
        _ip("-n", self.namespace(_BRIDGE), "link", "set", _port(host), "master", _BRIDGE)

    @contextmanager
    def one_way(self, lost: Sequence[tuple[str, str]]) -> Iterator[None]:
        """Lose what the first host of each pair sends to the second: it is addressed to a card that nobody has."""
        try:
            for sender, receiver in lost:
                self._neighbour("replace", sender, receiver, "lladdr", _NOBODY, "nud", "permanent")
            yield
        finally:
            for sender, receiver in lost:
                self._neighbour("delete", sender, receiver)

    def _neighbour(self, verb: str, sender: str, receiver: str, *more: str) -> None:
        _ip("-n", self.namespace(sender), "neighbour", verb, self.address(receiver), "dev", "eth0", *more)

    @contextmanager
    def entered(self, host: str) -> Iterator[None]:
        """Move this thread into the namespace of a host, and back at the end."""
        before = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter_namespace(self.namespace(host))
            yield
        finally:
            _set_namespace(before)
            os.close(before)


def _port(host: str) -> str:
    """The bridge's end of the cable to a host."""
    return f"to-{host}"


def enter_namespace(name: str) -> None:
    """Move this thread into a namespace that has a name."""
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set_namespace(descriptor)
    finally:
        os.close(descriptor)


def _set_namespace(descriptor: int) -> None:
    if _LIBC.setns(descriptor, _CLONE_NEWNET):
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


def need_namespaces() -> None:
    """Skip the test where namespaces and bridges cannot be made. In CI, too: a test cannot give itself the right."""
    need("ip")
    if os.geteuid() != 0:
        pytest.skip("needs network namespaces, which only root can make here")
    tried = f"skyrocket-{os.getpid()}-tried"
    try:
        _ip("netns", "add", tried)
        try:
            _ip("-n", tried, "link", "add", _BRIDGE, "type", "bridge")
            _ip("-n", tried, "link", "add", "one", "type", "veth", "peer", "name", "other")
            descriptor = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _set_namespace(descriptor)
            finally:
                os.close(descriptor)
        finally:
            _ip("netns", "delete", tried)
    except (OSError, CommandFailed) as error:
        pytest.skip(f"needs network namespaces, which this machine does not allow: {error}")


class CommandFailed(Exception):
    """`ip` refused a command."""


def _ip(*arguments: str) -> None:
    tool = shutil.which("ip")
    assert tool is not None
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandFailed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

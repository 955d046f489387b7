"""A disk in memory that can lose power and fail, behind the store's port to the file system.

Each file has two contents: what programs see (the page cache) and what is on disk (the platter). They differ, in sectors of 512
bytes, from a write until a sync.

    disk.crash(rng)        power failure: each unsynced sector is lost or kept at random. Returns the disk afterwards
    disk.kill()            the process is killed: everything written is still there
    disk.writeback(rng)    the kernel writes back some sectors on its own
    disk.fail(…)           the n-th operation of a kind fails, once or from then on
    disk.spoil_sector(…)   a sector cannot be read until it is written again
    disk.forget_pages()    no file is in memory any more: the next read of a sector waits for the disk
    disk.cut_power_at(n)   the n-th operation that changes anything does not finish, and no later one happens

A failed sync behaves as on Linux: the sectors that it should have written count as clean, and the next sync skips them.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

SECTOR_BYTES = 512
KINDS = ("write", "sync", "open", "read", "create", "remove", "replace", "move", "lock")
_CHANGES = ("write", "sync", "create", "remove", "replace", "move")

Bytes = bytes | bytearray | memoryview


class PowerCut(BaseException):
    """The machine is off. A BaseException, so that no `except Exception` catches it."""


class BusError(BaseException):
    """A file with a bad sector is read through a mapping: the process would end with SIGBUS."""


@dataclass(slots=True)
class Fault:
    kind: str
    nth: int  # counted from 1, from when the fault was set
    number: int  # errno
    short: bool = False  # a write: a part of it happens before the error
    lasting: bool = False  # all later ones fail too, until `heal`
    hits: int = 0


@dataclass(slots=True)
class Node:
    """The two contents of a file. `content` never changes its size, so that views stay valid."""

    content: bytearray
    durable: bytearray
    passed_over: dict[int, bytes] = field(default_factory=dict)  # sector → what a failed sync did not write
    bad: set[int] = field(default_factory=set)  # sectors that the disk does not return until they are written again
    absent: set[int] = field(default_factory=set)  # sectors that are not in memory until they are read or written

    def differing(self) -> list[int]:
        """Return the sectors whose content is not on disk yet."""
        content, durable = self.content, self.durable
        if content == durable:
            return []
        size = len(content)
        return [at for at in range(0, size, SECTOR_BYTES) if content[at : at + SECTOR_BYTES] != durable[at : at + SECTOR_BYTES]]

    def write(self, at: int, data: Bytes) -> None:
        """Write to the page cache. The sectors count as unsynced again, whatever they held before."""
        self.content[at : at + len(data)] = data
        self.absent.difference_update(range(at - at % SECTOR_BYTES, at + len(data), SECTOR_BYTES))
        self.bad -= {sector for sector in self.bad if at <= sector and sector + SECTOR_BYTES <= at + len(data)}
        if self.passed_over:
            for sector in range(at - at % SECTOR_BYTES, at + len(data), SECTOR_BYTES):
                self.passed_over.pop(sector, None)

    def keep(self, at: int) -> None:
        self.durable[at : at + SECTOR_BYTES] = self.content[at : at + SECTOR_BYTES]

    def sync(self) -> None:
        if not self.passed_over:
            self.durable[:] = self.content
            return
        for at in self.differing():
            if self.passed_over.get(at) != self.content[at : at + SECTOR_BYTES]:
                self.passed_over.pop(at, None)
                self.keep(at)

    def fail_sync(self) -> None:
        for at in self.differing():
            self.passed_over[at] = bytes(self.content[at : at + SECTOR_BYTES])


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, path: str, node: Node, writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._writable = writable
        self._closed = False
        self.size = len(node.content)

    def write(self, at: int, data: Bytes) -> None:
        assert self._writable
        assert at >= 0
        assert at + len(data) <= self.size, f"{len(data)} bytes at {at} do not fit in {self._path} of {self.size}"
        self._check_open()

        def some(rng: Random) -> None:
            self._node.write(at, data[: rng.randrange(len(data) + 1)])

        self._disk.operation("write", self._path, some)
        self._node.write(at, data)

    def read_from_disk(self, at: int, size: int) -> bytes:
        self._check_open()
        self._disk.operation("read", self._path)
        return bytes(self._node.durable[at : at + size])

    def read(self, at: int, size: int) -> bytes:
        self._check_open()
        self._disk.operation("read", self._path)
        self._check_readable(at, size)
        self._node.absent.difference_update(range(at - at % SECTOR_BYTES, at + size, SECTOR_BYTES))
        return bytes(self._node.content[at : at + size])

    def read_into(self, at: int, buffer: memoryview) -> int:
        data = self.read(at, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_into_now(self, at: int, buffer: memoryview) -> bool:
        if not self._node.absent.isdisjoint(range(at - at % SECTOR_BYTES, at + len(buffer), SECTOR_BYTES)):
            return False
        return self.read_into(at, buffer) == len(buffer)

    def _check_readable(self, at: int, size: int) -> None:
        bad = self._node.bad
        if bad and any(at < sector + SECTOR_BYTES and sector < at + size for sector in bad):
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)

    def view(self) -> memoryview:
        self._check_open()
        if self._node.bad and self._disk.traps_mappings:
            raise BusError(f"{self._path} has sectors that cannot be read, and is mapped")
        return memoryview(self._node.content).toreadonly()

    def window(self, size: int) -> memoryview:
        """Return bytes to write. What is written through them is not seen here, so all of them count as unsynced."""
        assert self._writable
        self._check_open()
        self._check_readable(0, size)
        self._node.passed_over = {at: passed for at, passed in self._node.passed_over.items() if at >= size}
        return memoryview(self._node.content)[:size]

    def data_end(self, at: int) -> int:
        self._check_open()
        return max(at, len(self._node.content.rstrip(b"\0")), *(sector + SECTOR_BYTES for sector in self._node.bad))

    def prefetch(self, at: int, size: int) -> None:
        self._check_open()

    def sync(self) -> None:
        self._check_open()
        self._disk.sync_node(self._path, self._node)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)


class SimulatedDisk:
    def __init__(self, seed: int = 0) -> None:
        self.nodes: dict[str, Node] = {}
        self.counts: Counter[str] = Counter()  # operations of each kind, since the start or the last `heal`
        self.used = 10.0
        self.modified: dict[str, int] = {}  # times of files, in ms; 0 for those that a test has not set
        self.traps_mappings = True  # also if a reader of a mapping keeps away from the bad sectors
        self._faults: list[Fault] = []
        self._rng = Random(seed)
        self._locked: set[str] = set()
        self._changes_left: int | None = None  # until the power goes
        self._off = False

    # --- what goes wrong

    def fail(self, kind: str, nth: int = 1, number: int = errno.EIO, *, short: bool = False, lasting: bool = False) -> Fault:
        assert kind in KINDS
        fault = Fault(kind, self.counts[kind] + nth, number, short, lasting)
        self._faults.append(fault)
        return fault

    def spoil_sector(self, path: str, at: int) -> None:
        """Make the sector that holds byte `at` of a file unreadable."""
        self.nodes[path].bad.add(at - at % SECTOR_BYTES)

    def forget_pages(self) -> None:
        """Drop all files from memory: every byte must be read from the disk again."""
        for node in self.nodes.values():
            node.absent.update(range(0, len(node.content), SECTOR_BYTES))

    def heal(self) -> None:
        self._faults.clear()

    def cut_power_at(self, change: int) -> None:
        self._changes_left = change

    @property
    def is_off(self) -> bool:
        return self._off

    def turn_off(self) -> None:
        """Stop the machine: every later operation raises PowerCut."""
        self._off = True

    def operation(self, kind: str, path: str, partly: Callable[[Random], None] | None = None) -> None:
        """Count an operation, and fail it if a fault is set for it. `partly` does a random part of the operation."""
        if self._off:
            raise PowerCut
        self.counts[kind] += 1
        if self._changes_left is not None and kind in _CHANGES:
            self._changes_left -= 1
            if self._changes_left <= 0:
                if partly is not None:
                    partly(self._rng)
                self._off = True
                raise PowerCut
        if not self._faults:
            return
        turn = self.counts[kind]
        for fault in self._faults:
            if fault.kind == kind and (turn == fault.nth or (fault.lasting and turn > fault.nth)):
                fault.hits += 1
                if fault.short and partly is not None:
                    partly(self._rng)
                raise OSError(fault.number, os.strerror(fault.number), path)

    def _after(self, *, keep: Callable[[], bool]) -> SimulatedDisk:
        disk = SimulatedDisk(self._rng.randrange(2**32))
        disk.used = self.used
        for path, node in self.nodes.items():
            content = bytearray(node.durable)
            for at in node.differing():
                if keep():
                    content[at : at + SECTOR_BYTES] = node.content[at : at + SECTOR_BYTES]
            disk.nodes[path] = Node(content, bytearray(content))
        self._off = True
        return disk

    def crash(self, rng: Random) -> SimulatedDisk:
        """Return the disk after a power failure. A random part of the unsynced sectors is kept."""
        share = rng.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
        return self._after(keep=lambda: rng.random() < share)

    def kill(self) -> SimulatedDisk:
        """Return the disk after kill -9. The page cache survives, unsynced sectors stay unsynced, and a sync passes over what it
        passed over before.
        """
        disk = self._after(keep=lambda: True)
        for path, node in self.nodes.items():
            disk.nodes[path].durable[:] = node.durable
            disk.nodes[path].passed_over = dict(node.passed_over)
        return disk

    def writeback(self, rng: Random) -> None:
        for node in self.nodes.values():
            for at in node.differing():
                if rng.random() < 0.5:
                    node.keep(at)

    def copy(self) -> SimulatedDisk:
        """Return a copy of the disk that no program uses."""
        disk = SimulatedDisk()
        disk.nodes = {path: Node(bytearray(node.content), bytearray(node.durable)) for path, node in self.nodes.items()}
        return disk

    def contents(self) -> dict[str, bytes]:
        return {path: bytes(node.content) for path, node in self.nodes.items()}

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file directly and durably, without counting an operation."""
        self.nodes[path] = Node(bytearray(data), bytearray(data))

    def sync_node(self, path: str, node: Node) -> None:
        def some(rng: Random) -> None:
            for at in node.differing():
                if rng.random() < 0.5:
                    node.keep(at)

        try:
            self.operation("sync", path, some)
        except OSError:
            node.fail_sync()
            raise
        node.sync()

    # --- the port

    def names(self, directory: str) -> list[str]:
        prefix = f"{directory}/"
        return sorted({path[len(prefix) :].partition("/")[0] for path in self.nodes if path.startswith(prefix)})

    def exists(self, path: str) -> bool:
        return path in self.nodes or any(other.startswith(f"{path}/") for other in self.nodes)

    def size(self, path: str) -> int:
        return len(self._node(path).content)

    def modified_ms(self, path: str) -> int:
        self._node(path)
        return self.modified.get(path, 0)

    def take_unsynced_directories(self) -> list[str]:
        return []  # changes of names are durable at once

    def put_back_unsynced_directories(self, directories: list[str]) -> None:
        assert not directories

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> SimulatedFile:
        _check_path(path)
        assert allocated <= size
        if path in self.nodes:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

        def some(rng: Random) -> None:
            # Only a power cut leaves something: after an error the real one takes its file away again.
            if self._changes_left is not None and rng.random() < 0.7:
                self.write_file(path, bytes(rng.choice((0, size))))

        self.operation("create", path, some)
        self.write_file(path, bytes(size))
        return SimulatedFile(self, path, self.nodes[path], writable=True)

    def open(self, path: str, *, writable: bool) -> SimulatedFile:
        self.operation("open", path)
        return SimulatedFile(self, path, self._node(path), writable)

    def read(self, path: str) -> bytes:
        self.operation("read", path)
        return bytes(self._node(path).content)

    def replace(self, path: str, data: bytes) -> None:
        self.replace_with_backup(path, (data,), None)

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        _check_path(path)
        data = b"".join(pieces)

        def some(rng: Random) -> None:
            if rng.random() < 0.5:
                self.write_file(path, data)
            else:
                self.write_file(f"{path}.tmp", data[: rng.randrange(len(data) + 1)])

        self.operation("replace", path, some)
        self.nodes.pop(f"{path}.tmp", None)
        if backup is not None and path in self.nodes:
            self.write_file(backup, bytes(self.nodes[path].content))
        self.write_file(path, data)

    def move(self, path: str, to: str) -> None:
        """Rename; like all changes of names here, it is durable at once."""
        _check_path(to)
        self.operation("move", path)
        assert not self.exists(to), to
        for old in [other for other in self.nodes if other == path or other.startswith(f"{path}/")]:
            self.nodes[to + old[len(path) :]] = self.nodes.pop(old)

    def sync_directory(self, path: str) -> None:
        self.operation("sync", path)

    def remove(self, path: str) -> None:
        def some(rng: Random) -> None:
            for gone in [other for other in self.nodes if other.startswith(f"{path}/")]:
                if rng.random() < 0.5:
                    del self.nodes[gone]

        self.operation("remove", path, some)
        for gone in [other for other in self.nodes if other == path or other.startswith(f"{path}/")]:
            del self.nodes[gone]

    def used_percent(self, path: str) -> float:
        return self.used

    def lock(self, path: str) -> Callable[[], None] | None:
        self.operation("lock", path)
        if path in self._locked:
            return None
        self._locked.add(path)
        self.write_file(path, b"lock")
        return lambda: self._locked.discard(path)

    def _node(self, path: str) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node


def _check_path(path: str) -> None:
    """Check that a path does not leave the store: a name from a message must never do that."""
    parts = path.lstrip("/").split("/")
    assert all(part not in ("", ".", "..") and "\0" not in part and len(part.encode()) <= 255 for part in parts), path

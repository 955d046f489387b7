"""A process that may open few files: the store keeps what it needs, and connections get the rest.

The real limit of the operating system (`ulimit -n`) holds for the processes here.
"""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from skyrocket.protocol.command import ONEWAY_FLAG, Command, encode_command
from skyrocket.protocol.message.record import BLANK_MAGIC, Record, encode_record
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.config import StoreConfig
from skyrocket.store.log.commit_log import BLANK
from skyrocket.store.log.segments import segment_name
from tests.support.processes.load import Wire, send_request
from tests.support.processes.skyrocket_process import DescriptorLimits, Skyrocket
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SEGMENTS = 1025  # more than a terabyte
QUEUES = 120

NOTHING_LEFT = """
import os, sys
from skyrocket.store.config import StoreConfig
from skyrocket.store.files import Disk
from skyrocket.store.message_store import MessageStore
from tests.support.stores.store_messages import bodies, numbered

config = StoreConfig(segment_bytes=1 << 20, index_slots=64, index_entries=1000, sync_flush=sys.argv[2] == "sync")
store = MessageStore(sys.argv[1], config, files=Disk(reserved=8))
store.open()
for number in range(20):
    store.append(numbered(1, "orders", number, first=number), 1_700_000_000_000)
store.flush()
while not store.write_late():
    pass
hoard = []
try:
    while True:
        hoard.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
store.checkpoint()
store.append(numbered(20, first=100), 1_700_000_000_001)
store.flush()
store.checkpoint()
store.append(numbered(1, "orders", 50, first=200), 1_700_000_000_002)  # a new file, from the reserve
store.flush()
store.checkpoint()
for descriptor in hoard:
    os.close(descriptor)
print(len(bodies(store)), len(bodies(store, "orders", 50)))
store.close()
"""

LARGE_STORE = """
import os, sys
from skyrocket.store.message_store import MessageStore
from tests.support.stores.store_messages import bodies, numbered

most = 0
for _ in range(2):
    store = MessageStore(sys.argv[1])
    store.open()
    most = max(most, len(os.listdir("/proc/self/fd")))
    counts = [len(bodies(store, "orders", queue_id)) for queue_id in range(int(sys.argv[2]))]
    most = max(most, len(os.listdir("/proc/self/fd")))
    for queue_id in range(int(sys.argv[2])):
        store.append(numbered(1, "orders", queue_id, first=queue_id), 1_800_000_000_000)
    store.checkpoint()
    most = max(most, len(os.listdir("/proc/self/fd")))
    store.close()
print(sum(counts), most)
"""


def limited_to(descriptors: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))


def run_script(script: str, descriptors: int, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=limited_to(descriptors)
    )  # system calls only
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_store_goes_on_when_the_process_has_no_descriptor_left(tmp_path: Path, flush: str):
    """Neither a checkpoint nor a flush opens a file, and a new queue takes from the reserve."""
    assert run_script(NOTHING_LEFT, 256, str(tmp_path / "store"), flush) == "21 1"


def write_large_store(root: Path) -> None:
    """Write a log of sparse files with one message each: it takes some megabytes of a disk."""
    segment_bytes, log = StoreConfig().segment_bytes, root / "commitlog"
    log.mkdir(parents=True)
    for number in range(SEGMENTS):
        queue_id, queue_offset = number % QUEUES, number // QUEUES
        record = encode_record(
            Record(
                topic="orders",
                body=b"%d" % number,
                queue_id=queue_id,
                queue_offset=queue_offset,
                physical_offset=number * segment_bytes,
                store_timestamp=1_700_000_000_000 + number,
            )
        )
        with (log / segment_name(number * segment_bytes)).open("wb") as file:
            file.truncate(segment_bytes)
            file.write(record)
            if number < SEGMENTS - 1:
                file.write(BLANK.pack(segment_bytes - len(record), BLANK_MAGIC))


def test_store_of_a_terabyte_opens_with_1024_descriptors(tmp_path: Path):
    write_large_store(tmp_path / "store")
    counted, most = map(int, run_script(LARGE_STORE, 1024, str(tmp_path / "store"), str(QUEUES)).split())
    assert counted == SEGMENTS + QUEUES, "all messages are read, and those that were added by the first of two lives"
    assert most < 500, "old segments are closed"


def soft_limit(process: Skyrocket) -> int:
    assert process.process is not None
    limits = Path(f"/proc/{process.process.pid}/limits").read_text().splitlines()
    return next(int(line.split()[3]) for line in limits if line.startswith("Max open files"))


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def connect_once_used(address: str, source: str) -> socket.socket:
    """Connect and send one request without an answer: whoever sends none at all is closed after ten seconds."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), 30, (source, 0))
    with suppress(ConnectionError):  # the broker may have closed it already
        connection.sendall(encode_command(Command(9999, flag=ONEWAY_FLAG)))
    return connection


def test_idle_connections_leave_the_store_what_it_needs(tmp_path: Path):
    """1,500 connections to a broker that may open 1,024 files: it closes what is too much, stores, and saves."""
    silent = {"serverChannelMaxIdleTimeSeconds": 3600}  # the test may take longer than silence is borne by default
    with Skyrocket(tmp_path, silent, descriptors=DescriptorLimits(256, 1024)) as server, ExitStack() as stack:
        assert soft_limit(server) == 1024
        warnings = [line for line in server.log_tail().splitlines() if "ulimit -n" in line]
        assert len(warnings) == 2, "one of the nameserver and one of the broker"
        wire = stack.enter_context(Wire(server.address))
        assert wire.ask(send_request("orders", b"first")).code == ResponseCode.SUCCESS
        idle = [stack.enter_context(connect_once_used(server.address, f"127.0.0.{2 + number % 50}")) for number in range(1500)]
        wait_until(lambda: sum(map(is_open, idle)) < 500, "the broker did not close connections")
        assert sum(map(is_open, idle)) > 100, "the broker closed nearly all connections"
        for number in range(60):
            answer = wire.ask(send_request(f"orders-{number}", b"new topic", number % 4))
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        saved = server.data / "store" / "checkpoint"
        for _ in range(2):
            before = saved.stat().st_mtime_ns
            assert wire.ask(send_request("orders", b"more")).code == ResponseCode.SUCCESS
            wait_until(lambda mark=before: saved.stat().st_mtime_ns > mark, "no checkpoint was written")
        assert sum(map(is_open, idle)) > 100
        assert server.complaints() == []
        server.stop()

"""Masters and slaves as processes, and load on the master: for tests that kill one of them at any moment."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import send_header

TOPIC = "Replicated"
_MAGICS = (bytes.fromhex("daa320a7"), bytes.fromhex("daa320ab"))
SIZES = (10, 10, 100, 100, 300, 1_000, 5_000, 60_000)


@dataclass
class MasterLoad:
    """Sends numbered messages to one broker, several at a time, and notes which of them were acknowledged."""

    address: str
    seed: int = 0
    senders: int = 4
    timeout_ms: int = 10_000
    pause_s: float = 0.02  # of each sender, between two messages
    acknowledged: set[bytes] = field(default_factory=set)
    codes: set[int] = field(default_factory=set)
    _number: int = 0
    _is_over: bool = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send in a thread meanwhile. The thread that starts processes has to live as long as they do, so it is not this one."""
        thread = threading.Thread(target=lambda: asyncio.run(self.run_for()))
        thread.start()
        try:
            yield
        finally:
            self._is_over = True
            thread.join()

    async def run_for(self, seconds: float = 1e9, messages: int = 1 << 40) -> None:
        """Send for a while, or until so many are acknowledged. A broker that is gone is tried again."""
        loop = asyncio.get_running_loop()
        until, enough = loop.time() + seconds, len(self.acknowledged) + messages
        dialer = Dialer()

        async def send() -> None:
            while not self._is_over and loop.time() < until and len(self.acknowledged) < enough:
                self._number += 1
                rng = random.Random(f"{self.seed}/{self._number}")
                body = f"{self.seed}/{self._number}/".encode()
                fields = send_header(TOPIC, queue_id=self._number % 4, properties={"KEYS": body.decode()}).to_fields()
                command = Command(RequestCode.SEND_MESSAGE_V2, fields=fields, body=body + rng.randbytes(rng.choice(SIZES)))
                try:
                    answer = await dialer.request(self.address, command, self.timeout_ms)
                except NetError:
                    await asyncio.sleep(0.05)
                    continue
                await asyncio.sleep(self.pause_s)
                self.codes.add(answer.code)
                if answer.code == ResponseCode.SUCCESS:
                    self.acknowledged.add(body)

        await asyncio.gather(*(send() for _ in range(self.senders)))
        await dialer.close()


def log_files(store: Path) -> dict[str, bytes]:
    """The files of a commit log that have messages, without the zeros behind them."""
    found = {}
    for path in sorted((store / "commitlog").glob("[0-9]" * 20)):
        with suppress(FileNotFoundError):
            content = path.read_bytes().rstrip(b"\0")
            if content:
                found[path.name] = content
    return found


def are_equal(one: Path, other: Path) -> bool:
    return log_files(one) == log_files(other) != {}


def explain(one: Path, other: Path) -> str:
    """Say how two logs differ."""
    ours, theirs = log_files(one), log_files(other)
    return f"{ {name: len(data) for name, data in ours.items()} } and { {name: len(data) for name, data in theirs.items()} }"


def numbers_in(store: Path) -> set[bytes]:
    """The numbers of all messages in a log."""
    found = set()
    for data in log_files(store).values():
        at = 0
        while data[at + 4 : at + 8] in _MAGICS:
            size = int.from_bytes(data[at : at + 4])
            for record in iterate_records(data[at : at + size].ljust(size, b"\0")):
                if record.topic == TOPIC:
                    found.add(b"/".join(record.body.split(b"/", 2)[:2]) + b"/")
            at += size
    return found

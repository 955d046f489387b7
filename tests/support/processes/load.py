"""A small client that speaks the protocol and nothing more, over plain sockets: for tests that load a server, or abuse it.

Wire(address)              one connection, blocking: bytes or commands out, commands in
send_request(…)            commands that a broker takes
GoodClient(address)        sends and fetches its own messages all the while, in a thread, and notes how it is served
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.message.record import Record, iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import pull_header, send_header

ANSWER_S_MAX = 30.0  # machines are slow at times; a server that does not answer at all still fails a test


def send_request(topic: str, body: bytes, queue_id: int = 0, opaque: int = 0, **given: Any) -> Command:
    fields = send_header(topic, queue_id, **given).to_fields()
    return Command(RequestCode.SEND_MESSAGE_V2, fields=fields, body=body, opaque=opaque)


def pull_request(topic: str, offset: int, opaque: int = 0, **given: Any) -> Command:
    return Command(RequestCode.PULL_MESSAGE, fields=pull_header(topic, offset, **given).to_fields(), opaque=opaque)


class Ended(AssertionError):
    """The server closed the connection."""


class Wire:
    def __init__(self, address: str, timeout_s: float = ANSWER_S_MAX) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self._decoder = CommandDecoder()
        self._arrived: deque[Command] = deque()
        self._opaque = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()

    def tell(self, data: bytes) -> None:
        """Any bytes. Ended when the server takes no more."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Ended(f"the server closed the connection: {error}") from error

    def ask(self, command: Command) -> Command:
        self._opaque += 1
        command.opaque = self._opaque
        self.tell(encode_command(command))
        while (answer := self.answer()).opaque != self._opaque:
            pass
        return answer

    def answer(self) -> Command:
        """The next command that the server sends. Ended when it closes instead, TimeoutError when it does neither."""
        while not self._arrived:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError as error:
                raise Ended("the server reset the connection") from error
            if not data:
                raise Ended("the server closed the connection")
            self._arrived.extend(self._decoder.feed(data))
        return self._arrived.popleft()

    def is_closed_within(self, seconds: float) -> bool:
        """Whether the server closes it; what it says before is passed over."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left_s)
            try:
                self.answer()
            except Ended:
                return True
            except TimeoutError:
                return False
        return False


class GoodClient(threading.Thread):
    """Sends a message, fetches it, and compares; again and again until it is stopped. `failure` says what went wrong."""

    PAUSE_S = 0.02

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(name="good-client", daemon=True)
        self._address = address
        self._topic = topic
        self._stopping = threading.Event()
        self.served = 0
        self.slowest_s = 0.0
        self.failure: str | None = None

    def run(self) -> None:
        try:
            with Wire(self._address) as wire:
                while not self._stopping.is_set():
                    started = time.monotonic()
                    self._once(wire)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                    self.served += 1
                    self._stopping.wait(self.PAUSE_S)
        except (AssertionError, OSError) as error:
            self.failure = f"after {self.served} messages: {type(error).__name__}: {error}"

    def _once(self, wire: Wire) -> None:
        body = b"good message %d" % self.served
        sent = _patiently(wire, lambda: send_request(self._topic, body))
        assert sent.code == ResponseCode.SUCCESS, sent
        offset = int(sent.fields["queueOffset"])
        pulled = _patiently(wire, lambda: pull_request(self._topic, offset, consumer_group="good_consumers"))
        assert pulled.code == ResponseCode.SUCCESS, pulled
        assert [record.body for record in records(pulled)] == [body]

    def stop(self) -> None:
        """Once more, to see that all is well in the end; then it ends."""
        served = self.served
        deadline = time.monotonic() + ANSWER_S_MAX
        while self.failure is None and self.served <= served and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stopping.set()
        self.join(ANSWER_S_MAX)
        assert self.failure is None, f"a well-behaved client was not served {self.failure}"
        assert self.served > served, f"a well-behaved client was not served any more after {served} messages"


def _patiently(wire: Wire, request: Callable[[], Command]) -> Command:
    """As clients do: who is told that the broker is busy asks again a little later."""
    deadline = time.monotonic() + ANSWER_S_MAX
    while (answer := wire.ask(request())).code == ResponseCode.SYSTEM_BUSY and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def records(response: Command) -> list[Record]:
    return list(iterate_records(response.body))


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123 — it is not a file in any other sense
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS")), 0)  # none: it is ending

"""Producers that send batches over plain sockets, each connection with many requests in flight.

One frame is encoded once and sent again and again, so the load costs a fraction of what the broker does for it.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.message.batch import encode_batch
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import send_header

IDLE_S_MAX = 60.0  # without an answer


class Batches(NamedTuple):
    """What every connection sends."""

    in_flight: int
    per_request: int = 32
    body_bytes: int = 1024

    def frame(self, topic: str, queue_id: int) -> bytes:
        body = encode_batch([(bytes(self.body_bytes), b"TAGS\x01TagA\x02", 0)] * self.per_request)
        fields = send_header(topic, queue_id, batch=True).to_fields()
        return encode_command(Command(RequestCode.SEND_BATCH_MESSAGE, fields=fields, body=body, opaque=7))


class BatchLoad(threading.Thread):
    """Sends until `count` requests are answered, or `stop`. Notes what was refused, and why."""

    def __init__(self, address: str, topic: str, connections: int, batches: Batches, count: int) -> None:
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self._batches = batches
        self._count = count
        self._frames = [batches.frame(topic, queue_id) for queue_id in range(4)]
        self._sockets = [socket.create_connection((host, int(port))) for _ in range(connections)]
        self._stopping = threading.Event()
        self.answered = 0
        self.refusals: list[str] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self._exchange()
        except (OSError, AssertionError) as error:
            self.failure = error
        finally:
            for each in self._sockets:
                each.close()

    def _exchange(self) -> None:
        selector = selectors.DefaultSelector()
        exchanges = [
            _Exchange(each, self._frames[number % 4], self._note, self._batches.in_flight)
            for number, each in enumerate(self._sockets)
        ]
        for exchange in exchanges:
            exchange.socket.setblocking(False)
            selector.register(exchange.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, exchange)
        heard = time.monotonic()
        while self.answered < self._count and not self._stopping.is_set():
            before = self.answered
            for key, events in selector.select(1.0):
                exchange = key.data
                if events & selectors.EVENT_READ:
                    exchange.receive()
                exchange.send()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if exchange.has_more else 0)
                if key.events != wanted:
                    selector.modify(key.fileobj, wanted, exchange)
            heard = time.monotonic() if self.answered > before else heard
            assert time.monotonic() - heard < IDLE_S_MAX, f"no answer for {IDLE_S_MAX} s, after {self.answered}"

    def _note(self, header: bytes) -> None:
        self.answered += 1
        if b'"code":%d,' % ResponseCode.SUCCESS not in header:
            self.refusals.append(header.decode())

    def stop(self) -> None:
        self._stopping.set()
        self.finish()

    def finish(self) -> None:
        self.join()
        if self.failure is not None:
            raise self.failure


class _Exchange:
    """One connection: what is still to be written, and what has been read of an answer."""

    def __init__(self, over: socket.socket, frame: bytes, note: Callable[[bytes], None], in_flight: int) -> None:
        self.socket = over
        self._frame = frame
        self._note = note
        self._unsent_frames = in_flight
        self._left = b""  # of the frame that is being written
        self._read = bytearray()

    @property
    def has_more(self) -> bool:
        return bool(self._left) or self._unsent_frames > 0

    def send(self) -> None:
        while self.has_more:
            if not self._left:
                self._left, self._unsent_frames = self._frame, self._unsent_frames - 1
            try:
                self._left = self._left[self.socket.send(self._left) :]
            except BlockingIOError:
                return

    def receive(self) -> None:
        data = self.socket.recv(1 << 18)
        assert data, "the broker closed a connection"
        self._read += data
        at = 0
        while len(self._read) - at >= 8:
            length = int.from_bytes(self._read[at : at + 4], "big")
            if len(self._read) - at < 4 + length:
                break
            header_length = int.from_bytes(self._read[at + 4 : at + 8], "big") & 0xFFFFFF
            self._note(bytes(self._read[at + 8 : at + 8 + header_length]))
            self._unsent_frames += 1
            at += 4 + length
        del self._read[:at]


def run_batches(address: str, topic: str, connections: int, batches: Batches, count: int) -> BatchLoad:
    """Send `count` requests, and return when all are answered."""
    load = BatchLoad(address, topic, connections, batches, count)
    load.start()
    load.finish()
    return load

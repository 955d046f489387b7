"""A nameserver on a loopback port, in a background thread, and a client that sends requests over real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from skyrocket.clock import monotonic_ms
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.protocol.bodies import RegisterBrokerBody, TopicConfig
from skyrocket.protocol.broker_registration import encode_registration
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import RegisterBrokerRequestHeader
from skyrocket.protocol.requests import RequestCode

WAIT_S = 60.0


class Running:
    def __init__(self, nameserver: Nameserver, loop: asyncio.AbstractEventLoop) -> None:
        self.nameserver = nameserver
        self._loop = loop

    def ask(self, code: int, header: Header | None = None, body: bytes = b"", **fields: str) -> Command:
        with self.connected() as ask:
            return ask(Command(code, opaque=7, fields={**(header.to_fields() if header else {}), **fields}, body=body))

    @contextmanager
    def connected(self) -> Iterator[Callable[[Command], Command]]:
        """One connection, asked one thing after the other."""
        with socket.create_connection(("127.0.0.1", self.nameserver.port), timeout=WAIT_S) as connection:
            decoder = CommandDecoder()

            def ask(request: Command) -> Command:
                with suppress(ConnectionResetError, BrokenPipeError):  # one way to learn that it was closed
                    connection.sendall(encode_command(request))
                    while piece := connection.recv(65_536):
                        for answer in decoder.feed(piece):
                            assert answer.opaque == request.opaque
                            return answer
                raise AssertionError("the nameserver closed the connection")

            yield ask

    def in_loop(self, question: Callable[[], Any]) -> Any:
        """The answer to a question that only the nameserver's own thread may ask."""

        async def answer() -> Any:
            return question()

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(WAIT_S)


@contextmanager
def a_nameserver(folder: Path, now_ms: Callable[[], int] = monotonic_ms, **settings: Any) -> Iterator[Running]:
    given = {"kv_config_path": folder / "kvConfig.json", "config_store_path": folder / "namesrv.properties", **settings}
    ready = threading.Event()
    running: list[Running] = []
    stopping: list[Callable[[], object]] = []

    async def serve() -> None:
        stopped = asyncio.Event()
        nameserver = Nameserver(NameserverSettings(listen_port=0, **given), now_ms=now_ms)
        await nameserver.start()
        loop = asyncio.get_running_loop()
        running.append(Running(nameserver, loop))
        stopping.append(lambda: loop.call_soon_threadsafe(stopped.set))
        ready.set()
        await stopped.wait()
        await nameserver.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(WAIT_S), "the nameserver did not start"
    try:
        yield running[0]
    finally:
        stopping[0]()
        thread.join(WAIT_S)


def registration(
    *topics: str, name: str = "broker-a", compressed: bool = False, counter: int = 1, queues: int = 4, **header: Any
) -> Command:
    """A broker's registration, as a broker would send it."""
    body = RegisterBrokerBody()
    body.topic_config_serialize_wrapper.data_version.counter = counter
    for topic in topics:
        body.topic_config_serialize_wrapper.topic_config_table[topic] = TopicConfig(
            topic_name=topic, read_queue_nums=queues, write_queue_nums=queues
        )
    data = encode_registration(body, compressed=compressed)
    given = {"broker_id": 0, "broker_addr": "127.0.0.1:10911", "ha_server_addr": "127.0.0.1:10912", **header}
    typed = RegisterBrokerRequestHeader(
        cluster_name="Test", broker_name=name, compressed=compressed, body_crc32=crc32(data) & 0x7FFF_FFFF, **given
    )
    return Command(RequestCode.REGISTER_BROKER, opaque=1, fields=typed.to_fields(), body=data)

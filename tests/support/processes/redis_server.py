"""A real Redis server on loopback, and the one command of it that claims need, as the package `redis` would send it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.support.tools import need

STARTS_IN_S_MAX = 20


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """Its port. Keeps nothing on disk."""
    need("redis-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + STARTS_IN_S_MAX
        while not _is_up(port):
            assert server.poll() is None, "redis-server ended"
            assert time.monotonic() < deadline, "redis-server does not come up"
            time.sleep(0.02)
        yield port
    finally:
        server.terminate()
        server.wait()


def _is_up(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _command(*words: Any) -> bytes:
    texts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts)


def _number(line: bytes) -> int:
    assert line.startswith(b":"), line
    return int(line[1:])


def _reply(stream: IO[bytes]) -> int | bytes | None:
    """A number, or a text and None where there is none."""
    line = stream.readline()
    if not line.startswith(b"$"):
        return _number(line)
    size = int(line[1:])
    return None if size < 0 else stream.read(size)


class PlainClient:
    """`redis.Redis`, as far as claims and versions go: scripts whose answer is a number or a text."""

    def __init__(self, port: int) -> None:
        self._port = port

    def eval(self, script: str, numkeys: int, /, *keys_and_args: Any) -> int | bytes | None:
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as connection:
            connection.sendall(_command("EVAL", script, numkeys, *keys_and_args))
            return _reply(connection.makefile("rb"))


class AwaitedClient:
    """`redis.asyncio.Redis`, likewise."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def eval(self, script: str, numkeys: int, /, *keys_and_args: Any) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(_command("EVAL", script, numkeys, *keys_and_args))
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return _number(line)

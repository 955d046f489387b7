"""Plain HTTP requests to the metrics listener, and its page as values."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import NamedTuple

from tests.support.waiting import WAIT_S_MAX

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')


class Answer(NamedTuple):
    status: int
    headers: str
    text: str


def read_answer(connection: socket.socket) -> Answer:
    """Read until the server closes the connection."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return Answer(int(head.split()[1]), head.decode(), body.decode())


def ask(port: int, path: str, method: str = "GET") -> Answer:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return read_answer(connection)


async def ask_async(port: int, path: str) -> Answer:
    """`ask` in a thread: the server may be in this event loop."""
    return await asyncio.to_thread(ask, port, path)


class Page(NamedTuple):
    """A page of metrics, taken apart strictly: what this does not understand is a mistake."""

    types: dict[str, str]
    samples: dict[str, list[tuple[dict[str, str], float]]]

    def value(self, name: str, **labels: str) -> float:
        """The value of the only series with these labels, among others."""
        found = [value for given, value in self.samples.get(name, []) if labels.items() <= given.items()]
        assert len(found) == 1, f"{name} with {labels}: {len(found)} series"
        return found[0]

    def labels_of(self, name: str) -> set[frozenset[str]]:
        """The sets of label names that the series of a metric have."""
        return {frozenset(given) for given, _ in self.samples.get(name, [])}


def parse_page(text: str) -> Page:
    assert text.endswith("\n")
    types: dict[str, str] = {}
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} stands twice on the page"
            types[name] = kind
        elif not line.startswith("# HELP "):
            found = _SAMPLE.fullmatch(line)
            assert found is not None, line
            labels = dict(_LABEL.findall(found[2] or ""))
            assert ",".join(f'{name}="{value}"' for name, value in labels.items()) == (found[2] or "").rstrip(","), line
            series = samples.setdefault(found[1], [])
            assert labels not in [given for given, _ in series[-50:]], f"twice: {line}"
            series.append((labels, float(found[3])))
    return Page(types, samples)


async def scrape(port: int) -> Page:
    answer = await ask_async(port, "/metrics")
    assert answer.status == 200, answer
    assert "Content-Type: text/plain; version=0.0.4" in answer.headers
    return parse_page(answer.text)

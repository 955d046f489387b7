"""The head of an HTTP request, as much of it as three pages need. Pure: bytes in, a request or an error out.

    GET /metrics?x=1 HTTP/1.1\\r\\n
    Host: …\\r\\n
    \\r\\n

Only GET and HEAD are served. Headers are not looked at, and a body is not read: every connection is closed behind its answer.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 8 * 1024

_END: Final = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,1024}) HTTP/1\.[01]\r?\n")
_LINE_BYTES_MAX: Final = 1_100


class HttpRequest(NamedTuple):
    method: str
    path: str


class HttpError(ValueError):
    """A request that is answered with an error. The message is a sentence for whoever sent it."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def parse_request(received: bytes | bytearray) -> HttpRequest | None:
    """Return the request; None while its head is not complete. Raise HttpError when it cannot be one."""
    line = _REQUEST_LINE.match(received)
    if line is None and (b"\n" in received or len(received) > _LINE_BYTES_MAX):
        raise HttpError(HTTPStatus.BAD_REQUEST, "This is not an HTTP request.")
    if _END.search(received) is None:
        if len(received) > HEAD_BYTES_MAX:
            raise HttpError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"The head of a request has at most {HEAD_BYTES_MAX} bytes."
            )
        return None
    assert line is not None, "an end of the head has a line before it"
    method, target = line[1].decode(), line[2].decode()
    if method not in ("GET", "HEAD"):
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not allowed here. Use GET.")
    return HttpRequest(method, target.partition("?")[0])


class HttpResponse(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    def encode(self, method: str = "GET") -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode()
        return head if method == "HEAD" else head + self.body


def text_response(status: HTTPStatus, *sentences: str) -> HttpResponse:
    return HttpResponse(status, "".join(f"{sentence}\n" for sentence in sentences).encode())

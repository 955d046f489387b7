"""Heads of HTTP requests: complete, incomplete, too large, garbage."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from skyrocket.metrics.http_request import HEAD_BYTES_MAX, HttpError, HttpRequest, HttpResponse, parse_request, text_response


@pytest.mark.parametrize(
    "head",
    [
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
        b"GET /metrics?name=x HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.0\n\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\nwhatever follows",
    ],
)
def test_a_request(head: bytes):
    assert parse_request(head) == HttpRequest("GET", "/metrics")


def test_a_request_is_read_when_its_head_is_complete():
    head = b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    assert [end for end in range(len(head)) if parse_request(head[:end]) is not None] == []
    assert parse_request(head) == HttpRequest("HEAD", "/healthz")


@pytest.mark.parametrize(
    ("received", "status"),
    [
        (b"\n", HTTPStatus.BAD_REQUEST),
        (b"\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"\x00\x00\x01\x04\x00\x00\x00\x58{}\n", HTTPStatus.BAD_REQUEST),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics HTTP/2\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /" + b"a" * 5_000, HTTPStatus.BAD_REQUEST),
        (b"\x16\x03\x01" + b"\x00" * 2_000, HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES_MAX, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"POST /metrics HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
    ],
)
def test_what_is_refused(received: bytes, status: HTTPStatus):
    with pytest.raises(HttpError) as refused:
        parse_request(received)
    assert refused.value.status is status


def test_an_answer_says_how_long_it_is_and_that_the_connection_closes():
    head, _, body = text_response(HTTPStatus.OK, "ready").encode().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 6" in head
    assert b"Connection: close" in head
    assert body == b"ready\n"


def test_the_answer_to_head_has_no_body():
    assert HttpResponse(HTTPStatus.OK, b"ready\n").encode("HEAD").endswith(b"\r\n\r\n")

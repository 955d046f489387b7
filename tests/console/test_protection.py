"""What protects the console: hosts, sessions, roles, tokens, the policy of its pages, and bodies that would be markup."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from skyrocket.client import ClientOptions, Message
from skyrocket.client.sync import Admin, Producer
from skyrocket.console.application import HEADERS
from skyrocket.console.clusters import name_cluster
from skyrocket.console.errors import ConsoleError
from skyrocket.console.limits import CONNECTIONS_MAX, FORM_BYTES_MAX, LOGIN_FAILURES_MAX
from skyrocket.console.pages import ROUTES
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, format_user, hash_password
from skyrocket.console.server import ConsoleOptions, ConsoleServer, VisitorConnection
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.console import Visitor, running_console
from tests.support.processes.certificates import Authority, Certificate
from tests.support.waiting import WAIT_S_MAX, wait_until

PASSWORDS = {"ann": "operator-password", "vic": "viewer-password"}
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'`{{7*7}}\u202e</pre></textarea>"


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    roles = {"ann": ConsoleRole.OPERATOR, "vic": ConsoleRole.VIEWER}
    lines = [format_user(ConsoleUser(name, roles[name], hash_password(text, b"s" * 16))) for name, text in PASSWORDS.items()]
    path = tmp_path_factory.mktemp("users") / "users.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def guarded(broker: SyncBroker, users: Path) -> Iterator[ConsoleServer]:
    with running_console(broker.nameserver, users=users) as running:
        yield running


def log_in(console: ConsoleServer, name: str, password: str | None = None) -> Visitor:
    visitor = Visitor(console.url)
    visitor.http.post("/login", data={"name": name, "password": password or PASSWORDS[name], "next": "/topics"})
    return visitor


# --- login and roles


def test_beyond_loopback_the_console_wants_users():
    options = ConsoleOptions(clusters=(name_cluster(ClientOptions("127.0.0.1:9876")),), port=0, host="0.0.0.0")
    with pytest.raises(ConsoleError, match="everybody who can connect could use the console"):
        options.read_access()


def test_without_a_login_there_is_no_page(guarded: ConsoleServer):
    with httpx.Client(base_url=guarded.url) as http:
        for route in ROUTES:
            path = re.sub(r"\{\w+\}", "x", route.path)
            answer = http.request(route.method, path)
            assert answer.status_code == (303 if route.method == "GET" else 403), route
            if route.method == "GET":
                assert answer.headers["location"].startswith("/login?next=%2F")
        assert http.get("/nowhere").status_code == 303, "not even whether a page exists is told"


def test_a_login_leads_to_the_page_that_was_asked_for(guarded: ConsoleServer):
    visitor = log_in(guarded, "ann")
    page = visitor.read("/topics")
    assert "ann (operator)" in page
    assert "New topic" in page
    visitor.close()


@pytest.mark.parametrize("after", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "\n//x"])
def test_a_login_leads_to_no_other_site(guarded: ConsoleServer, after: str):
    with httpx.Client(base_url=guarded.url) as http:
        answer = http.post("/login", data={"name": "ann", "password": PASSWORDS["ann"], "next": after})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_viewer_sees_everything_and_changes_nothing(guarded: ConsoleServer, broker: SyncBroker):
    visitor = log_in(guarded, "vic")
    page = visitor.get("/topics")
    assert "New topic" not in page
    token = re.search(r'name="token" value="(\w+)"', page)
    assert token is not None
    for route in ROUTES:
        if route.method == "POST":
            path = re.sub(r"\{\w+\}", "x", route.path)
            answer = visitor.http.post(path, data={"token": token[1], "confirm": "x", "topic": "viewer-topic"})
            assert answer.status_code == 403, route
            assert "This needs the role operator" in answer.text
    with Admin(broker.nameserver) as admin:
        assert "viewer-topic" not in admin.topics.names()
    visitor.close()


def test_a_log_out_ends_the_session(guarded: ConsoleServer):
    visitor = log_in(guarded, "ann")
    token = re.search(r'name="token" value="(\w+)"', visitor.get("/"))
    assert token is not None
    kept = visitor.http.cookies["skyrocket_session"]
    visitor.http.post("/logout", data={"token": token[1]})
    assert "Log in" in visitor.get("/topics")
    visitor.close()
    copied = httpx.get(f"{guarded.url}topics", cookies={"skyrocket_session": kept})
    assert copied.status_code == 303, "a copy of the cookie is worth nothing"


def test_wrong_passwords_are_refused_and_then_throttled(broker: SyncBroker, users: Path):
    with running_console(broker.nameserver, users=users) as console, httpx.Client(base_url=console.url, timeout=60) as http:
        answers = [
            http.post("/login", data={"name": name, "password": "wrong-password"})
            for name in ["ann", "nobody"] * LOGIN_FAILURES_MAX
        ]
        assert {answer.status_code for answer in answers[:LOGIN_FAILURES_MAX]} == {403}
        assert len({answer.text for answer in answers[:LOGIN_FAILURES_MAX]}) == 1, "which users exist is not told"
        assert {answer.status_code for answer in answers[LOGIN_FAILURES_MAX:]} == {429}
        right = http.post("/login", data={"name": "ann", "password": PASSWORDS["ann"]})
        assert right.status_code == 429, "the right password does not help before the time is over"
        assert "set-cookie" not in right.headers


def test_passwords_that_are_tried_at_the_same_time_are_throttled_too(broker: SyncBroker, users: Path):
    with running_console(broker.nameserver, users=users) as console:
        data = {"name": "ann", "password": "wrong-password"}
        with ThreadPoolExecutor(4 * LOGIN_FAILURES_MAX) as threads:
            tries = [
                threads.submit(httpx.post, f"{console.url}login", data=data, timeout=60) for _ in range(4 * LOGIN_FAILURES_MAX)
            ]
            statuses = sorted(one.result().status_code for one in tries)
        assert statuses == [403] * LOGIN_FAILURES_MAX + [429] * 3 * LOGIN_FAILURES_MAX


# --- connections


def test_connections_of_one_address_leave_room_for_others(console: ConsoleServer):
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", console.port))) for _ in range(CONNECTIONS_MAX + 2)]
        for one in idle[-3:]:
            one.settimeout(WAIT_S_MAX)
            assert one.recv(1) == b"", "one too many is closed"
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=60) as other:
            assert other.get(f"{console.url}healthz").status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / "])
def test_a_connection_that_brings_no_request_is_closed(console: ConsoleServer, sent: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VisitorConnection, "request_s_max", 0.1)
    with socket.create_connection(("127.0.0.1", console.port), timeout=WAIT_S_MAX) as connection:
        connection.sendall(sent)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200" if b"healthz" in sent else b"")


def test_a_form_that_does_not_arrive_is_given_up(console: ConsoleServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.console.application.FORM_S_MAX", 0.1)
    head = (
        "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", console.port), timeout=WAIT_S_MAX) as connection:
        connection.sendall(head.encode() + b"name=")
        assert connection.recv(65536).startswith(b"HTTP/1.1 ")


# --- other sites


def test_a_form_without_its_token_changes_nothing(visitor: Visitor, broker: SyncBroker):
    visitor.get("/")
    for token in ("", "0" * 64, "é"):
        answer = visitor.http.post("/topics", data={"topic": "forged", "token": token})
        assert answer.status_code == 403
    with Admin(broker.nameserver) as admin:
        assert "forged" not in admin.topics.names()


def test_a_form_with_the_token_of_another_session_changes_nothing(visitor: Visitor, console: ConsoleServer):
    other = Visitor(console.url)
    token = re.search(r'name="token" value="(\w+)"', other.get("/new-topic"))
    assert token is not None
    visitor.get("/")
    assert visitor.http.post("/topics", data={"topic": "forged", "token": token[1]}).status_code == 403
    other.close()


def test_a_form_of_another_site_changes_nothing(visitor: Visitor):
    token = re.search(r'name="token" value="(\w+)"', visitor.get("/new-topic"))
    assert token is not None
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        data = {"topic": "forged", "token": token[1]}
        assert visitor.http.post("/topics", data=data, headers={"Origin": origin}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8082", "10.0.0.7", ""])
def test_a_host_that_is_not_ours_gets_nothing(console: ConsoleServer, host: str):
    answer = httpx.get(f"{console.url}topics", headers={"Host": host})
    assert answer.status_code == 421
    assert "broker" not in answer.text


def test_a_form_that_is_too_large_or_no_form_is_refused(visitor: Visitor):
    visitor.get("/")
    large = visitor.http.post("/topics", data={"topic": "x" * FORM_BYTES_MAX})
    assert large.status_code == 400
    assert visitor.http.post("/topics", json={"topic": "x"}).status_code == 400
    assert visitor.http.get(f"/topics?q={'x' * 5_000}").status_code == 400


def test_a_change_is_one_line_in_the_log_with_who_made_it(guarded: ConsoleServer, caplog: pytest.LogCaptureFixture):
    visitor = log_in(guarded, "ann")
    with caplog.at_level("INFO", "skyrocket.console.application"):
        visitor.fill("/new-group", group="logged")
        visitor.fill("/groups/logged/delete", confirm="logged")
    visitor.close()
    assert [line for line in caplog.messages if "logged" in line] == [
        "ann: group logged created: enabled True, broadcast True, orderly False, retries 16",
        "ann: group logged deleted",
    ]


# --- pages


def test_every_response_forbids_foreign_scripts(visitor: Visitor, console: ConsoleServer):
    for path in ("/", "/nowhere", "/assets/console.js", "/healthz", "/message?x", "/login"):
        headers = visitor.http.get(path).headers
        assert {name: headers.get(name) for name in HEADERS} == dict(HEADERS), path
    refused = httpx.get(console.url, headers={"Host": "evil.example"})
    assert refused.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy


def test_cookies_are_for_our_site_alone(console: ConsoleServer):
    cookie = httpx.get(console.url).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_bodies_and_names_never_become_markup(visitor: Visitor, broker: SyncBroker):
    broker.create_topic("hostile")
    with Producer(broker.nameserver) as producer:
        receipt = producer.send(
            Message("hostile", HOSTILE.encode(), tag="<b>tag</b>", keys="<i>key</i>", properties={"<u>name": HOSTILE})
        )
    place = f"topic=hostile&broker=broker-a&queue={receipt.queue.queue_id}&offset={receipt.queue_offset}"
    pages = [
        visitor.get("/messages?topic=hostile"),
        visitor.get("/messages?topic=hostile&by=time"),
        *(visitor.get(f"/message?{place}&view={view}") for view in ("text", "json", "hex", "nonsense")),
        visitor.get("/topics", 200),
        visitor.http.get("/topics", params={"q": HOSTILE}).text,
        visitor.http.get("/messages", params={"topic": HOSTILE, "tag": HOSTILE}).text,
        visitor.http.get(f"/groups/{httpx.URL(path='/' + HOSTILE).raw_path.decode()[1:]}").text,
        visitor.http.get("/message", params={"topic": HOSTILE, "broker": HOSTILE, "queue": "1", "offset": HOSTILE}).text,
    ]
    for page in pages:
        for markup in ("<script>document", "<img src=x", "<b>tag", "<i>key", "<u>name", "</pre></textarea>", "\u202e"):
            assert markup not in page
    assert "&lt;script&gt;document.title" in pages[2]
    assert "{{7*7}}" in pages[2], "a template never runs what it shows"


def test_a_body_is_downloaded_and_not_shown(visitor: Visitor, broker: SyncBroker):
    broker.create_topic("hostile")
    with Producer(broker.nameserver) as producer:
        receipt = producer.send(Message("hostile", b"<html><script>alert(1)</script></html>"))
    place = f"topic=hostile&broker=broker-a&queue={receipt.queue.queue_id}&offset={receipt.queue_offset}"
    headers = visitor.http.get(f"/message-body?{place}").headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment;")
    assert headers["x-content-type-options"] == "nosniff"


def test_pages_load_nothing_from_elsewhere(visitor: Visitor):
    for path in ("/", "/topics", "/messages", "/access"):
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', visitor.get(path)):
            assert address.startswith(("/", "#")), (path, address)
            assert not address.startswith("//"), (path, address)


def test_https_with_a_certificate_of_ones_own(broker: SyncBroker, tmp_path: Path):
    pair = Certificate.make(tmp_path)
    with running_console(broker.nameserver, certificate=pair.path, key=pair.key) as console:
        assert console.url.startswith("https://")
        answer = httpx.get(console.url, verify=False)
        assert answer.status_code == 200
        assert "Secure" in answer.headers["set-cookie"]


def test_a_renewed_certificate_is_shown_without_a_restart(broker: SyncBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.console.server.RENEWAL_MS", 10)
    first, second = Certificate.make(tmp_path), Certificate.make(make_folder(tmp_path / "renewed"))
    renewed = second.path.read_text()
    with running_console(broker.nameserver, certificate=first.path, key=first.key) as console:
        address = ("127.0.0.1", console.port)
        assert ssl.get_server_certificate(address) == first.path.read_text()
        second.key.replace(first.key)
        second.path.replace(first.path)
        wait_until(lambda: ssl.get_server_certificate(address) == renewed, "the renewed certificate is shown")


def test_with_an_authority_browsers_show_a_certificate_of_it(broker: SyncBroker, tmp_path: Path):
    authority = Authority.make(tmp_path / "ca")
    server, browser = authority.certificate("server"), authority.certificate("browser")
    options = {"certificate": server.path, "key": server.key, "client_ca": authority.path}
    with running_console(broker.nameserver, **options) as console:
        url = f"{console.url}healthz"
        assert httpx.get(url, verify=authority.trusted(browser)).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(url, verify=authority.trusted())


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path

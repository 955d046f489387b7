"""Several clusters in one console: each has its own pages, clients and credentials, and none disturbs another."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from skyrocket.client import ClientOptions, Credentials
from skyrocket.client.sync import Admin
from skyrocket.console.clusters import ConsoleCluster, check_clusters, name_cluster
from skyrocket.console.errors import ConsoleError
from skyrocket.console.limits import CLUSTERS_MAX, PAGES_AT_ONCE
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, format_user, hash_password
from skyrocket.console.server import ConsoleServer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.console import Visitor, running_console
from tests.support.ports import free_port
from tests.support.waiting import wait_until

ROOT = {"username": "root-user", "password": "root-secret"}
GUARDED = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": json.dumps(ROOT)}
BROKEN = "Profile 'broken' takes its secret key from BROKEN_SECRET, which is not set."


@pytest.fixture(scope="module")
def prod() -> Iterator[SyncBroker]:
    """A cluster that asks for credentials."""
    with sync.LocalBroker(GUARDED) as running:
        yield running


@pytest.fixture(scope="module")
def mute() -> Iterator[str]:
    """A nameserver that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="module")
def console(prod: SyncBroker, broker: SyncBroker, mute: str) -> Iterator[ConsoleServer]:
    root = ClientOptions(prod.nameserver, credentials=Credentials(*ROOT.values()))
    clusters = (
        ConsoleCluster("prod", "--cluster prod", root),
        ConsoleCluster("stage", "--cluster stage", ClientOptions(broker.nameserver)),
        name_cluster(ClientOptions(f"127.0.0.1:{free_port()}")),
        ConsoleCluster("mute", "--cluster mute", ClientOptions(mute)),
        ConsoleCluster("broken", "--cluster broken", None, BROKEN),
    )
    with running_console("", clusters=clusters) as running:
        yield running


def test_the_first_page_lists_all_clusters_and_says_what_is_wrong_with_each(visitor: Visitor):
    wait_until(lambda: visitor.read("/").count("fine 1 of 1 answer") == 2, lambda: f"two clusters answer: {visitor.read('/')}")
    page = visitor.read("/")
    assert f"broken {BROKEN}" in page
    wait_until(lambda: "No nameserver answers" in visitor.read("/"), "one does not answer")
    assert 'href="/c/prod/"' in visitor.get("/")


def test_pages_stay_within_their_cluster(visitor: Visitor, broker: SyncBroker, prod: SyncBroker):
    assert "Topic only-here is created." in visitor.fill("/c/stage/new-topic", topic="only-here", read_queues=1, write_queues=1)
    page = visitor.get("/c/stage/topics")
    assert 'href="/c/stage/topics/only-here"' in page
    for address in re.findall(r'(?:href|action)="(/[^"]*)"', page):
        assert address.startswith(("/c/", "/assets/")) or address == "/", address
    assert "only-here" not in visitor.read("/c/prod/topics")
    with Admin(broker.nameserver) as admin:
        assert "only-here" in admin.topics.names()
    assert "is deleted" in visitor.fill("/c/stage/topics/only-here/delete", confirm="only-here")


def test_the_switch_leads_to_the_same_page_of_another_cluster(visitor: Visitor):
    page = visitor.get("/c/stage/groups")
    assert 'href="/c/prod/groups"' in page
    assert re.search(r'href="/c/stage/groups" aria-current="true"', page)
    assert "skyrocket group list --cluster stage" in visitor.read("/c/stage/groups")


def test_each_cluster_has_its_own_credentials(visitor: Visitor):
    assert "authentication is on" in visitor.read("/c/prod/access")
    assert "root-user" in visitor.read("/c/prod/access")
    assert "authentication is off" in visitor.read("/c/stage/access")


def test_a_cluster_that_cannot_be_connected_has_a_sentence_on_each_page(visitor: Visitor):
    for path in ("/c/broken/", "/c/broken/topics", "/c/broken/doctor"):
        assert BROKEN in visitor.read(path, 502)
    assert "This console has no cluster nowhere." in visitor.read("/c/nowhere/topics", 404)
    assert "There is no page /topics." in visitor.read("/topics", 404)


def test_a_mute_cluster_does_not_keep_others_waiting(visitor: Visitor, console: ConsoleServer):
    """More pages wait for the mute cluster than may ask a cluster at once. Those of another are answered meanwhile."""
    answered = []

    def ask() -> None:
        with httpx.Client(base_url=console.url, timeout=120) as http:
            answered.append(http.get("/c/mute/topics").status_code)

    waiting = [threading.Thread(target=ask) for _ in range(2 * PAGES_AT_ONCE)]
    for thread in waiting:
        thread.start()
    assert "Topics" in visitor.read("/c/stage/topics")
    assert "Clusters" in visitor.read("/")
    unanswered = len(waiting) - len(answered)
    for thread in waiting:
        thread.join()
    assert unanswered > PAGES_AT_ONCE, "the pages of the others came first"
    assert set(answered) == {200}


def test_a_change_is_logged_with_its_cluster(visitor: Visitor, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO", "skyrocket.console.application"):
        visitor.fill("/c/stage/new-group", group="logged")
    assert any(line.endswith("retries 16 (cluster stage)") for line in caplog.messages)


def test_one_login_is_for_all_clusters_and_without_it_not_even_their_names_are_told(broker: SyncBroker, tmp_path: Path):
    users = tmp_path / "users.txt"
    users.write_text(format_user(ConsoleUser("vic", ConsoleRole.VIEWER, hash_password("viewer-password", b"s" * 16))))
    clusters = tuple(ConsoleCluster(name, f"--cluster {name}", ClientOptions(broker.nameserver)) for name in ("prod", "stage"))
    with running_console("", clusters=clusters, users=users) as guarded:
        with httpx.Client(base_url=guarded.url) as http:
            for path in ("/", "/c/prod/topics", "/c/nowhere/topics"):
                assert http.get(path).headers["location"].startswith("/login?next=%2F")
                assert "stage" not in http.get(path, follow_redirects=True).text
            assert http.post("/c/prod/topics", data={"topic": "x"}).status_code == 403
        visitor = Visitor(guarded.url)
        answer = visitor.http.post("/login", data={"name": "vic", "password": "viewer-password", "next": "/c/prod/topics"})
        assert answer.url.path == "/c/prod/topics"
        assert "vic (viewer)" in visitor.read("/c/stage/groups")
        token = re.search(r'name="token" value="(\w+)"', visitor.get("/"))
        assert token is not None
        for cluster in ("prod", "stage"):
            refused = visitor.http.post(f"/c/{cluster}/topics", data={"token": token[1], "topic": "viewer-topic"})
            assert refused.status_code == 403
        visitor.close()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["prod", "prod"], "Cluster 'prod' was given more than once."),
        (["prod", "a/b"], "'a/b' cannot stand in an address."),
        ([], "A console shows 1 to 16 clusters, not 0."),
        ([f"c{number}" for number in range(CLUSTERS_MAX + 1)], "not 17"),
    ],
)
def test_clusters_that_cannot_be_told_apart_are_refused(names: list[str], sentence: str):
    with pytest.raises(ConsoleError, match=re.escape(sentence)):
        check_clusters([ConsoleCluster(name, "", ClientOptions("127.0.0.1:9876")) for name in names])


def test_a_console_without_any_cluster_that_can_be_connected_does_not_start():
    with pytest.raises(ConsoleError, match="BROKEN_SECRET"):
        check_clusters([ConsoleCluster("broken", "", None, BROKEN)])

"""A client that says it can take large responses gets them from our broker only; every other client gets Apache's limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster, send_request
from tests.support.apache.packages import run_java
from tests.support.brokers.running_broker import pull_header
from tests.support.processes.skyrocket_process import Skyrocket, registered

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parent / "java" / "PullSize.java"
TOPIC, MESSAGES, APACHES_LIMIT, LARGE_BYTES = "LargePulls", 100, 32, 4 * 1024 * 1024


@pytest.fixture(scope="module", params=["ours", "apache"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Whose broker runs, and its nameserver."""
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "ours":
        with Skyrocket(home) as running:
            fill(running.nameserver)
            yield request.param, running.nameserver
        return
    with ApacheCluster(home) as cluster:
        cluster.broker(home / "store", NO_TIMERS)
        fill(cluster.nameserver)
        yield request.param, cluster.nameserver


def fill(nameserver: str) -> None:
    with Admin(nameserver) as admin:
        admin.topics.create(TOPIC, queues=1)
    with Producer(nameserver) as producer:
        queue: Queue = producer.queues(TOPIC)[0]
        for number in range(MESSAGES):
            producer.send(Message(TOPIC, b"%d" % number), queue=queue)


def count_pulled(nameserver: str, response_bytes_max: int | None) -> int:
    """Pull as our client does, and count the messages of the response."""
    (address,) = registered(nameserver)
    host, port = address.split(":")
    fields = pull_header(TOPIC, 0, max_msg_nums=1024, response_bytes_max=response_bytes_max).to_fields()
    response = send_request((host, int(port)), Command(RequestCode.PULL_MESSAGE, opaque=7, fields=fields))
    assert response is not None
    assert response.code == ResponseCode.SUCCESS
    return len(list(iterate_records(response.body)))


def test_client_that_can_take_it_gets_a_large_response_from_our_broker_only(served: tuple[str, str]):
    whose, nameserver = served
    assert count_pulled(nameserver, LARGE_BYTES) == (MESSAGES if whose == "ours" else APACHES_LIMIT)


def test_client_that_says_nothing_gets_apaches_limits(served: tuple[str, str]):
    assert count_pulled(served[1], None) == APACHES_LIMIT


def test_javas_client_gets_apaches_limits(served: tuple[str, str]):
    assert int(run_java(JAVA, served[1], TOPIC).split()[-1]) == APACHES_LIMIT

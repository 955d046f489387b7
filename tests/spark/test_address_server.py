"""Source and sink find the nameservers through an HTTP server, as Apache's clients do with `rocketmq.namesrv.domain`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from tests.spark.conftest import Cluster


class AddressServer(BaseHTTPRequestHandler):
    """Lists the nameservers at /rocketmq/nsaddr, after it has failed once."""

    nameservers = ""
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.send_response(503 if len(self.requests) == 1 else 200)
        self.end_headers()
        if len(self.requests) > 1:
            self.wfile.write(f"{self.nameservers}\n".encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address_server(ours: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(AddressServer, "nameservers", ours.nameserver)
    monkeypatch.setattr(AddressServer, "requests", [])
    with HTTPServer(("127.0.0.1", 0), AddressServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("delivery", "form"), [("at-least-once", "URL"), ("exactly-once", "host and port")])
def test_rows_are_written_and_read_through_an_address_server(
    spark: Any, address_server: str, topic: str, delivery: str, form: str
):
    if form == "host and port":
        address_server = urlsplit(address_server).netloc
    rows = spark.range(7).selectExpr("cast(id as string) as body")
    rows.write.format("rocketmq").mode("append").options(addressServer=address_server, topic=topic, delivery=delivery).save()
    read = spark.read.format("rocketmq").options(addressServer=address_server, subscribe=topic).load()
    assert sorted(int(row.body) for row in read.collect()) == list(range(7))
    assert set(AddressServer.requests) == {"/rocketmq/nsaddr"}


def test_missing_topic_names_the_address_server(spark: Any, address_server: str):
    with pytest.raises(Exception, match=f"topic 'nowhere', which does not exist at the nameservers of {address_server}"):
        spark.read.format("rocketmq").options(addressServer=address_server, subscribe="nowhere").load().count()

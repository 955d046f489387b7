"""Source and sink with TLS and with access control. Tasks and commits run without Spark."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from skyrocket.client.session.credentials import Credentials
from skyrocket.client.sync import Admin
from skyrocket.protocol.system_names import HALF_TOPIC, TOOLS_GROUP
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.errors import OptionError, RequestRefusedError, UnreachableClusterError
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.batch_reader import BatchReader
from tests.spark.sink_deaths import Life, mortal_commit
from tests.spark.sink_scenes import bodies, commit, exactly_once, options_for, send, stage
from tests.support.apache.cluster import ApacheCluster
from tests.support.processes.certificates import Certificate
from tests.support.processes.skyrocket_process import Skyrocket, SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import wait_until

TOPIC = "orders"
SINK_LEDGER = "SKYROCKET_SINK_LEDGER"
ROWS = [f"row {number}" for number in range(20)]
USER, PASSWORD = "etl", "12345678"
_NUMBERS = itertools.count()  # a new query for each commit: the ledger refuses to commit a batch of a query twice
RIGHT = {"accessKey": USER, "secretKey": PASSWORD, "retryTimeout": "20s"}
WRONG = {**RIGHT, "secretKey": "guessed"}

Deliver = Callable[[str, Mapping[str, str]], Awaitable[None]]


async def at_least_once(nameserver: str, options: Mapping[str, str]) -> None:
    await send(options_for(nameserver, TOPIC, **options), bodies(*ROWS))


async def once(nameserver: str, options: Mapping[str, str]) -> None:
    given: SinkOptions = exactly_once(nameserver, TOPIC, **options)
    query = f"query {next(_NUMBERS)}"
    await commit(given, await stage(given, bodies(*ROWS), query=query), query=query)


async def once_although_the_driver_dies(nameserver: str, options: Mapping[str, str]) -> None:
    """The first driver dies in the middle of its ENDs, and the next one searches the queues for what it has delivered."""
    given: SinkOptions = exactly_once(nameserver, TOPIC, **options)
    query = f"query {next(_NUMBERS)}"
    assert not await mortal_commit(given, await stage(given, bodies(*ROWS), query=query), Life(len(ROWS)), query=query)
    await commit(given, await stage(given, bodies(*ROWS), query=query), query=query)


BOTH_WAYS = pytest.mark.parametrize("deliver", [at_least_once, once])


def reader(nameserver: str, options: Mapping[str, str]) -> BatchReader:
    given = {"nameserver": nameserver, "subscribe": TOPIC, **options}
    return BatchReader(given, spark_schema(source_options(given).columns))


def read(nameserver: str, options: Mapping[str, str]) -> list[str]:
    reading = reader(nameserver, options)
    batches: list[Any] = [batch for part in reading.partitions() for batch in reading.read(part)]
    return sorted((body.decode() for batch in batches for body in batch.column("body").to_pylist()), key=ROWS.index)


# --- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def encrypting(tmp_path: Path, certificate: Certificate) -> Iterator[str]:
    with (
        SkyrocketNameserver(tmp_path / "names", certificate.server_settings) as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, certificate.server_settings),
    ):
        with Admin(names.nameserver, tls=certificate.trusted()) as admin:
            admin.topics.create(TOPIC, queues=2)
        yield names.nameserver


@BOTH_WAYS
def test_rows_are_written_and_read_through_tls(encrypting: str, certificate: Certificate, deliver: Deliver):
    trusted = {"tls": "true", "tlsCaFile": str(certificate.path)}
    asyncio.run(deliver(encrypting, trusted))
    assert read(encrypting, trusted) == ROWS


@BOTH_WAYS
def test_untrusted_certificate_is_refused(encrypting: str, tmp_path: Path, deliver: Deliver):
    unknown = {"tls": "true", "retryTimeout": "500ms"}
    with pytest.raises(UnreachableClusterError, match="certificate verify failed"):
        reader(encrypting, unknown).partitions()
    with pytest.raises(UnreachableClusterError, match="certificate verify failed"):
        asyncio.run(deliver(encrypting, unknown))
    nothing = {"tls": "true", "tlsCaFile": str(tmp_path / "nothing.pem")}
    with pytest.raises(OptionError, match="Option 'tls' is true, but the files"):
        reader(encrypting, nothing).partitions()
    with pytest.raises(OptionError, match="Option 'tls' is true, but the files"):
        asyncio.run(deliver(encrypting, nothing))


# --- access control: Apache's broker and ours


@pytest.fixture(scope="module", params=["apache", "ours"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("guarded")
    provider = "org.apache.rocketmq.auth.authentication.provider"
    settings = {
        "brokerName": "a",
        "mappedFileSizeCommitLog": 16_777_216,
        "authenticationEnabled": "true",
        "authenticationProvider": f"{provider}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{provider}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": USER, "password": PASSWORD}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": USER, "secretKey": PASSWORD}),
    }
    if request.param == "apache":
        with ApacheCluster(home) as cluster:
            cluster.broker(home / "store", settings)
            yield cluster.nameserver
    else:
        with Skyrocket(home, settings) as server:
            yield server.nameserver


@pytest.fixture
def empty(guarded: str) -> str:
    """An empty topic."""
    with Admin(guarded, credentials=Credentials(USER, PASSWORD)) as admin:
        if TOPIC in admin.topics.names():
            admin.topics.delete(TOPIC)
        admin.topics.create(TOPIC, queues=2)
    return guarded


@pytest.mark.interop
@BOTH_WAYS
def test_access_control_admits_a_known_account(empty: str, deliver: Deliver):
    asyncio.run(deliver(empty, RIGHT))
    # Apache's broker shows messages a moment after it has acknowledged them.
    wait_until(lambda: read(empty, RIGHT) == ROWS, lambda: f"all rows are there, not {read(empty, RIGHT)}")


@pytest.mark.interop
@BOTH_WAYS
@pytest.mark.parametrize("options", [{"retryTimeout": "20s"}, WRONG], ids=["nobody", "guessing"])
def test_access_control_refuses_an_unknown_account(empty: str, deliver: Deliver, options: dict[str, str]):
    with pytest.raises(RequestRefusedError, match="NO_PERMISSION"):
        asyncio.run(deliver(empty, options))
    with pytest.raises(RequestRefusedError, match="NO_PERMISSION"):
        read(empty, options)


@pytest.mark.interop
def test_refused_task_names_its_queue(empty: str):
    asyncio.run(at_least_once(empty, RIGHT))
    planned = reader(empty, RIGHT).partitions()
    with pytest.raises(RequestRefusedError, match=r"queue \d of orders at a cannot be read: .* NO_PERMISSION"):
        list(reader(empty, WRONG).read(planned[0]))


# --- access control: users who are not Super, with rules for what they do and nothing else

ALL_USES = ["Pub", "Sub", "Get"]
RULES = {  # docs/spark.md names them
    "writer": {f"Topic:{TOPIC}": ["Pub"]},
    "committer": {
        f"Topic:{TOPIC}": ALL_USES,
        f"Topic:{SINK_LEDGER}": ALL_USES,
        f"Topic:{HALF_TOPIC}": ["Get"],
        f"Group:{TOOLS_GROUP}": ["Sub"],
    },
    "reader": {f"Topic:{TOPIC}": ["Sub", "Get"], "Group:readers": ["Sub"]},
}


def test_normal_users_need_only_the_rules_that_the_documentation_names(tmp_path: Path):
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": "root", "password": "root-secret"}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "inner-secret"}),
        "authAuditLogPath": tmp_path / "audit.log",
    }
    options = {name: {"accessKey": name, "secretKey": PASSWORD, "retryTimeout": "20s"} for name in RULES}
    reading = {name: {**given, "groupId": "readers"} for name, given in options.items()}
    with Skyrocket(tmp_path, settings) as server:
        with Admin(server.nameserver, credentials=Credentials("root", "root-secret")) as admin:
            admin.topics.create(TOPIC, queues=2)
            admin.topics.create(SINK_LEDGER, queues=1)
            for user, rules in RULES.items():
                admin.access.create_user(user, PASSWORD)
                for resource, actions in rules.items():
                    admin.access.create_rules(user, [resource], actions)
        asyncio.run(at_least_once(server.nameserver, options["writer"]))
        assert read(server.nameserver, reading["reader"]) == ROWS
        asyncio.run(once(server.nameserver, options["committer"]))
        asyncio.run(once_although_the_driver_dies(server.nameserver, options["committer"]))
        assert read(server.nameserver, reading["reader"]) == sorted(ROWS * 3, key=ROWS.index)
        with pytest.raises(RequestRefusedError, match="NO_PERMISSION"):
            read(server.nameserver, reading["writer"])
        with pytest.raises(RequestRefusedError, match="NO_PERMISSION"):
            asyncio.run(at_least_once(server.nameserver, options["reader"]))
        server.stop()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    refused = [(line["user"], line["remark"]) for line in lines if line["decision"] == "refused"]
    assert {user for user, _ in refused} == {"writer", "reader"}, refused

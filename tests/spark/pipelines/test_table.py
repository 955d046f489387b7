"""`maintain_table` in a real Spark, with our broker, into PostgreSQL, Delta and Iceberg."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Message, Producer
from skyrocket.pipelines import ChangeSpec, TableOptions, maintain_table
from skyrocket.pipelines.errors import ArgumentError, MissingMessagesError, TargetError
from skyrocket.pipelines.progress import JobProgress
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import create, create_again
from tests.support.pipelines.table_targets import Place, delta_place, iceberg_place, postgresql_place
from tests.support.processes.postgres_server import postgres_server
from tests.support.waiting import wait_until

SPEC = ChangeSpec(["id"], "v", "op=delete")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["postgresql", "delta", "iceberg"])
def place(request: pytest.FixtureRequest, tmp_path: Path, topic: str) -> Place:
    if request.param == "delta":
        return delta_place(tmp_path / "table")
    if request.param == "iceberg":
        return iceberg_place(tmp_path / "catalog", "changes")
    return postgresql_place(request.getfixturevalue("postgresql"), topic.replace("-", "_"))


def send(cluster: Cluster, topic: str, bodies: list[dict[str, Any] | bytes], queue: int = 0) -> None:
    encoded = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in bodies]
    with Producer(cluster.nameserver, group="changes") as producer:
        for at in range(0, len(encoded), 500):
            batch = [Message(topic, each) for each in encoded[at : at + 500]]
            producer.send_batch(batch, queue=Queue(topic, cluster.broker_name, queue))


def named(cluster: Cluster) -> dict[str, str]:
    return {"nameserver": cluster.nameserver}


def test_a_topic_becomes_a_table_and_follows_its_changes(spark: SparkSession, ours: Cluster, topic: str, place: Place):
    create(ours.nameserver, topic)
    wanted = TableOptions(topic, SPEC, batch_messages=700)
    given: dict[str, Any] = {"cluster": named(ours), "table": place.table}
    for queue in (0, 1):  # the same keys in both queues: versions decide, not places
        changes = [{"id": f"k{n % 200}", "v": 2 * n + queue, "name": f"n{2 * n + queue}", "price": n / 4} for n in range(600)]
        send(ours, topic, [*changes, b"bad"], queue)
    steps: list[JobProgress] = []
    done = maintain_table(spark, wanted, place.to, on_progress=steps.append, **given)
    assert (done.messages, done.rejected, done.batches) == (1202, 2, 2)
    assert done.counts.applied + done.counts.late == 1200
    expected = {f"k{n}": (2 * (n + 400) + 1, f"n{2 * (n + 400) + 1}") for n in range(200)}
    assert place.state() == expected
    assert {row["price"] for row in place.read("") if row["_key"] == "k0"} == {100.0}
    assert steps[-1].counted() == "1,202 of 1,202 messages"
    again = maintain_table(spark, wanted, place.to, **given)
    assert (again.messages, again.is_new, place.state()) == (0, False, expected)
    send(ours, topic, [{"id": "k0", "v": 5000, "op": "delete"}, {"id": "k1", "v": 1, "name": "late"}])
    last = maintain_table(spark, wanted, place.to, **given)
    assert (last.counts.applied, last.counts.late, place.state()["k0"]) == (1, 1, (5000, None))


def test_a_topic_that_was_created_again_and_has_grown_past_the_table_is_refused(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path
):
    create(ours.nameserver, topic)
    place, wanted = delta_place(tmp_path / "table"), TableOptions(topic, SPEC)
    send(ours, topic, [{"id": "a", "v": 1, "name": "old"}])
    maintain_table(spark, wanted, place.to, cluster=named(ours))
    create_again(ours.nameserver, topic)
    send(ours, topic, [{"id": "b", "v": 1, "name": "new"}, {"id": "b", "v": 2, "name": "new"}])
    with pytest.raises(MissingMessagesError, match="the topic was deleted and created again, or this is another cluster"):
        maintain_table(spark, wanted, place.to, cluster=named(ours))
    assert place.state() == {"a": (1, "old")}


def test_a_job_that_follows_takes_new_changes_until_it_is_stopped(spark: SparkSession, ours: Cluster, topic: str, place: Place):
    """The topic is empty at first: the table is made of the first messages."""
    create(ours.nameserver, topic)
    stop, done = threading.Event(), []
    wanted = TableOptions(topic, SPEC)

    def follow() -> None:
        made = maintain_table(
            spark, wanted, place.to, cluster=named(ours), table=place.table, follow=True, every_s=0.05, stop=stop
        )
        done.append(made)

    def state() -> dict[str, Any]:
        try:
            return place.state()
        except Exception:  # there is no table yet
            return {}

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        for version in (1, 2):
            send(ours, topic, [{"id": "a", "v": version, "name": f"n{version}"}], queue=version - 1)
            wait_until(lambda wanted=version: state() == {"a": (wanted, f"n{wanted}")}, f"version {version}", every_s=0.1)
    finally:
        stop.set()
        thread.join()
    assert (done[0].messages, done[0].counts.applied) == (2, 2)


def test_keys_versions_and_deletions_come_from_properties_and_message_keys(
    spark: SparkSession, ours: Cluster, topic: str, place: Place
):
    create(ours.nameserver, topic, 1)
    with Producer(ours.nameserver, group="changes") as producer:
        for number, name in enumerate(["one", "two"], 1):
            body = json.dumps({"name": name}).encode()
            producer.send(Message(topic, body, keys=["k"], properties={"rev": str(number)}))
        producer.send(Message(topic, b"null", keys=["gone"], properties={"rev": "9"}))
        producer.send(Message(topic, b'{"name": "x"}', keys=["marked"], properties={"rev": "1", "op": "d"}))
    wanted = TableOptions(topic, ChangeSpec(["message:key"], "property:rev", "property:op=d"), "expected-version")
    done = maintain_table(spark, wanted, place.to, cluster=named(ours), table=place.table)
    assert place.state() == {"k": (2, "two"), "marked": (1, None)}
    assert (done.waiting, [(gap.key, gap.has, gap.next) for gap in done.gaps]) == (1, [("gone", None, 9)])


def test_the_view_of_live_rows_leaves_out_what_was_deleted(spark: SparkSession, ours: Cluster, topic: str, postgresql: str):
    create(ours.nameserver, topic, 1)
    send(ours, topic, [{"id": "a", "v": 1, "n": 1}, {"id": "b", "v": 1}, {"id": "b", "v": 2, "op": "delete"}])
    place = postgresql_place(postgresql, "shown")
    maintain_table(spark, TableOptions(topic, SPEC), place.to, cluster=named(ours), table="shown")
    assert [(row["id"], row["n"], row["_version"]) for row in place.read("live")] == [("a", 1, 1)]


@pytest.mark.usefixtures("keeps_spark")
def test_the_command_writes_a_report(ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic, 1)
    send(ours, topic, [{"id": "a", "v": 1}, {"id": "a", "v": 1}, b"bad", {"id": "b", "v": 1, "color": "red"}])
    page, words = tmp_path / "page.html", ["--to", f"delta:{tmp_path / 't'}", "--key", "id", "--version", "v"]
    assert run(ours, topic, *words, "--dry-run", "--report", str(page)).exit_code == 0
    assert "messages to read" in page.read_text()
    done = run(ours, topic, *words, "--json", "--report", str(page))
    assert done.exit_code == 0, done.stderr
    (reason,) = json.loads(done.stdout)["reasons"]
    text = page.read_text()
    assert "applied: 2 messages" in text
    assert "rejected: 1 messages" in text
    assert reason in text


# --- the command line, as far as it needs no Spark


def run(cluster: Cluster, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["pipeline", "table", *arguments, "-n", cluster.nameserver], prog_name="skyrocket")


def test_a_dry_run_says_columns_and_messages_and_writes_nothing(ours: Cluster, topic: str, tmp_path: Path, postgresql: str):
    create(ours.nameserver, topic, 1)
    send(ours, topic, [{"id": "a", "v": 1, "name": "x"}])
    for to in (f"delta:{tmp_path / 'd'}", f"iceberg:{tmp_path / 'i'}", f"postgresql:{postgresql}"):
        done = run(ours, topic, "--to", to, "--key", "id", "--version", "v", "--dry-run")
        assert done.exit_code == 0, done.stderr
        lines = done.stdout.splitlines()
        assert [line.split() for line in lines[:4]] == [["COLUMN", "TYPE"], ["id", "text"], ["name", "text"], ["v", "bigint"]]
        assert lines[4].endswith(" would be made. 1 messages would be read.")
        document = json.loads(run(ours, topic, "--to", to, "--key", "id", "--version", "v", "--dry-run", "--json").stdout)
        assert (document["planned"], document["isNew"], document["columns"]["v"]) == (1, True, "bigint")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--key", "idd", "--version", "v"], "None of the 1 newest messages of the topic is a change."),
        (["--key", "id", "--version", "v", "--table", "pg_class_x" * 9], "The table's name is "),
    ],
)
def test_options_that_cannot_work_are_one_sentence_before_spark_starts(
    ours: Cluster, topic: str, postgresql: str, given: list[str], sentence: str
):
    create(ours.nameserver, topic, 1)
    send(ours, topic, [{"id": "a", "v": 1}])
    done = run(ours, topic, "--to", f"postgresql:{postgresql}", *given)
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1)
    assert sentence in done.stderr


def test_a_topic_that_does_not_exist_is_one_sentence(ours: Cluster, tmp_path: Path):
    done = run(ours, "absent", "--to", f"delta:{tmp_path / 'd'}", "--key", "id", "--version", "v")
    assert (done.exit_code, done.stderr.startswith("Topic 'absent' does not exist at ")) == (2, True)


def test_a_server_that_is_not_there_and_a_wrong_password_are_one_sentence(ours: Cluster):
    done = run(ours, "t", "--to", "postgresql://u:s3cret@127.0.0.1:1/db", "--key", "id", "--version", "v")
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (1, 1)
    assert "s3cret" not in done.stderr


def test_a_table_of_others_is_not_touched(spark: SparkSession, ours: Cluster, topic: str, postgresql: str, tmp_path: Path):
    import psycopg

    create(ours.nameserver, topic, 1)
    send(ours, topic, [{"id": "a", "v": 1}])
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("create table theirs (id text)")
    with pytest.raises(TargetError, match="exists, and this job did not make it"):
        maintain_table(spark, TableOptions(topic, SPEC), f"postgresql:{postgresql}", cluster=named(ours), table="theirs")
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(TargetError, match="is not empty, and this job did not make it"):
        maintain_table(spark, TableOptions(topic, SPEC), f"delta:{tmp_path}", cluster=named(ours))
    with pytest.raises(ArgumentError, match="--table is for PostgreSQL"):
        maintain_table(spark, TableOptions(topic, SPEC), f"delta:{tmp_path / 'd'}", cluster=named(ours), table="x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

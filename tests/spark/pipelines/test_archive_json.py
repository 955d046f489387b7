"""Archives whose JSON bodies are typed columns, too: as Parquet files, as a Delta table and as an Iceberg table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Message, Producer
from skyrocket.pipelines import archive_topics
from skyrocket.pipelines.archive.archive_folder import TableFormat
from skyrocket.pipelines.archive.job import INFER
from skyrocket.pipelines.archive.reading import read_archive
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.json_columns.json_schema import JsonColumn, JsonColumns
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import create, rows


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def table_format(request: pytest.FixtureRequest) -> TableFormat:
    return request.param


def send(cluster: Cluster, topic: str, bodies: list[dict[str, Any] | bytes], queue: int = 0) -> None:
    encoded = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in bodies]
    with Producer(cluster.nameserver, group="sends-json") as producer:
        producer.send_batch([Message(topic, each) for each in encoded], queue=Queue(topic, cluster.broker_name, queue))


def named(cluster: Cluster) -> dict[str, str]:
    return {"nameserver": cluster.nameserver}


def test_bodies_are_typed_columns_beside_the_raw_body_and_drift_is_counted(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, table_format: TableFormat
):
    create(ours.nameserver, topic)
    root, given = tmp_path / "a", {"cluster": named(ours), "table_format": table_format}
    send(ours, topic, [{"id": 1, "topic": "mine", "lines": [{"n": 1}]}, {"id": 2, "price": 1}, {"id": 3, "price": 2.5}])
    send(ours, topic, [b"\x00\xff not JSON"], queue=1)
    first = archive_topics(spark, [topic], root, json_columns=INFER, **given)
    assert first.json_columns is not None
    kinds = {column.name: column.kind for column in first.json_columns.columns}
    assert kinds == {"id": "bigint", "topic": "text", "lines": "json", "price": "double"}
    assert (first.messages, first.bad_bodies, first.drift.counts) == (4, 1, {})
    send(ours, topic, [{"id": "x", "new": True}, {"id": 5}])
    second = archive_topics(spark, [topic], root, compact=table_format != "iceberg", **given)  # an archive keeps its columns
    assert (second.messages, second.bad_bodies, second.drift.counts) == (2, 0, {"text:id": 1, "boolean:new": 1})
    found = rows(root)
    assert [row["json"] and (row["json"]["id"], row["json"]["price"]) for row in found] == [
        *((1, None), (2, 1.0), (3, 2.5), (None, None), (5, None), None)
    ]
    assert json.loads(found[0]["json"]["lines"]) == [{"n": 1}]
    assert found[0]["json"]["topic"] == "mine"
    assert (found[3]["jsonRest"], found[3]["body"]) == ('{"id":"x","new":true}', b'{"id": "x", "new": true}')
    assert found[5]["jsonError"].startswith("the body is not JSON: ")
    assert found[5]["body"] == b"\x00\xff not JSON"
    frame = read_archive(spark, root)
    assert frame.where("json.id > 1").selectExpr("sum(json.price)").collect()[0][0] == 3.5
    assert frame.where("jsonError IS NOT NULL").count() == 1


def test_a_schema_names_the_columns_and_the_required_fields(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic, 1)
    columns = JsonColumns([JsonColumn("id", "bigint"), JsonColumn("at", "timestamp")], ["id"])
    done = archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours), json_columns=columns)
    assert (done.messages, read_archive(spark, tmp_path / "a").where("json.id = 1").count()) == (0, 0)
    send(ours, topic, [{"id": 1, "at": "2026-11-18T10:00:00+01:00"}, {"at": "2026-11-18T10:00:00Z"}])
    done = archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours), json_columns=columns)
    assert done.bad_bodies == 1
    first, second = rows(tmp_path / "a")
    assert first["json"]["at"].isoformat() == "2026-11-18T09:00:00+00:00"
    assert second["jsonError"] == "the required field 'id' is missing"
    other = JsonColumns([JsonColumn("id", "text")])
    with pytest.raises(ArgumentError, match=r"is an archive with other JSON columns\. They are decided when it is made"):
        archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours), json_columns=other)


def test_an_archive_without_json_columns_gets_none_later_and_nothing_is_inferred_from_nothing(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path
):
    create(ours.nameserver, topic, 1)
    with pytest.raises(ArgumentError, match=r"^None of the newest messages has a body that is a JSON object with fields\."):
        archive_topics(spark, [topic], tmp_path / "b", cluster=named(ours), json_columns=INFER)
    archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours))
    with pytest.raises(ArgumentError, match="is an archive with no JSON columns"):
        archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours), json_columns=INFER)


def test_a_schema_that_is_none_is_one_sentence_before_spark_starts(ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic, 1)
    (tmp_path / "s.json").write_text("[]")
    arguments = ["pipeline", "archive", topic, "--to", str(tmp_path / "a"), "--schema", str(tmp_path / "s.json")]
    done = CliRunner().invoke(app, [*arguments, "-n", ours.nameserver], prog_name="skyrocket")
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1)
    assert "is not a JSON Schema of an object: it has no 'properties'." in done.stderr

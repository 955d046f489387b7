"""`skyrocket pipeline drain` and `verify` as commands, in the Spark session of the tests: output, exit codes, reports."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from skyrocket.cli.main import app
from skyrocket.cli.pipeline_jobs.job_command import JobOptions
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines.archive.reading import archive_files
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import create, fill, rows
from tests.support.stores.sample_stores import sample_store
from tests.support.terminal import answer_at_terminal


class SharedSession:
    """The session of the tests, which a command must not stop."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobOptions, "session", lambda _options, _job: SharedSession(spark))


def run(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def test_a_drain_says_first_what_it_would_do_and_its_own_commands_bring_everything_back(
    ours: Cluster, topic: str, tmp_path: Path
):
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 40)
    with Admin(ours.nameserver) as admin:
        admin.groups.create(topic)
        admin.offsets.set(topic, {Queue(topic, ours.broker_name, number): 4 for number in (0, 1)})
    root, page = tmp_path / "my drain", tmp_path / "drain.html"
    words = ["pipeline", "drain", topic, topic, "--to", root, "--tag", "paid", "--subscribed", "true", "-n", ours.nameserver]

    planned = run(*words, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert planned.stdout.splitlines()[0].split() == ["TOPIC", "BROKER", "QUEUE", "FROM", "TO", "WAITING"]
    assert "32 messages will be archived" in planned.stdout
    assert planned.stdout.endswith("This was a dry run: nothing has changed.\n")
    refused = run(*words)
    assert (refused.exit_code, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert refused.stderr.endswith("Confirm it with --yes, or look first with --dry-run.\n")
    assert not root.exists()

    drained = run(*words, "--yes", "--json", "--report", page)
    assert drained.exit_code == 0, drained.output
    document = json.loads(drained.stdout)
    assert (document["state"], document["archived"], document["replayed"] + document["resent"]) == ("moved", 32, 32)
    assert "<!doctype html>" in page.read_text()
    again = run(*words)
    assert "32 messages archived" in again.stdout, "a finished drain is shown, and not repeated"

    replayed = run(*shlex.split(document["replayCommand"])[1:], "--json")
    assert json.loads(replayed.stdout)["sent"] == document["replayed"] == sum(row["tags"] == "paid" for row in rows(root))
    proven = run(*shlex.split(document["proveCommand"])[1:])
    assert (proven.exit_code, "Nothing was lost" in proven.stdout) == (0, True)
    Path(archive_files(root)[0]).unlink()
    refuted = run(*shlex.split(document["proveCommand"])[1:], "--report", page)
    assert (refuted.exit_code, "are missing" in refuted.stdout, "are missing" in page.read_text()) == (1, True, True)


def test_a_drain_asks_at_a_terminal_and_no_is_the_default(ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic, 1)
    fill(ours.nameserver, topic, ours.broker_name, 10, queues=1)
    with Admin(ours.nameserver) as admin:
        admin.groups.create(topic)
        admin.offsets.set(topic, {Queue(topic, ours.broker_name, 0): 4})
    root = tmp_path / "drained"
    words = ["pipeline", "drain", topic, topic, "--to", str(root), "--subscribed", "true", "-n", ours.nameserver]
    code, shown, output = answer_at_terminal("\n", *words)
    assert (code, output) == (1, "")
    assert f"6 messages will be archived to {root}, and group '{topic}' moved past them." in shown
    assert "Nothing has changed." in shown
    assert not root.exists()
    code, _, output = answer_at_terminal("y\n", *words, "--json", "--master", "local[1]", "--conf", "spark.driver.memory=512m")
    assert (code, json.loads(output)["state"]) == (0, "moved")
    assert len(rows(root)) == 6


def test_the_exit_code_of_a_verification_says_whether_all_is_sound(tmp_path: Path):
    store, page = sample_store(tmp_path / "store"), tmp_path / "verify.html"
    sound = run("pipeline", "verify", store)
    assert (sound.exit_code, "sound" in sound.stdout) == (0, True), sound.output
    next(path for path in (store / "consumequeue").rglob("*") if path.is_file()).write_bytes(b"\x01" * 400)
    broken = run("pipeline", "verify", store, "--json", "--report", page)
    document = json.loads(broken.stdout)
    assert (broken.exit_code, document["isSound"]) == (1, False)
    assert any("consumequeue" in problem for problem in document["results"][0]["problems"])
    assert "consumequeue" in page.read_text()

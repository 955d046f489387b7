"""`skyrocket pipeline` outside the tests' own process: on this machine, a standalone cluster, and Spark Connect.

The standalone cluster has two workers. Each job that starts Spark runs on it once. Jobs on one master share a process and its
Spark session; the last tests run a command as a user does, as a process of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import skyrocket
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from tests.spark.conftest import Cluster, config_with_archive
from tests.support.pipelines.archives import contents, create, fill, rows
from tests.support.pipelines.command_process import CommandProcess, Done
from tests.support.pipelines.table_targets import delta_place
from tests.support.spark.java import java_options
from tests.support.spark.processes import JOB_S_MAX, connect_server, environment, python_without_skyrocket
from tests.support.stores.sample_stores import sample_store

Job = Callable[..., dict[str, Any]]


def command_environment(home: Path) -> dict[str, str]:
    return {key: value for key, value in environment(home).items() if key not in ("SPARK_HOME", "SPARK_LOCAL_IP", "JAVA_HOME")}


def command(master: str, cluster: Cluster, *words: object) -> list[str]:
    """The words of a command, with the settings of a small Spark."""
    small = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
    small |= {"spark.cores.max": "2", "spark.executor.cores": "1"}  # one executor on each worker, beside another application
    small |= {f"spark.{part}.extraJavaOptions": java_options() for part in ("driver", "executor")}
    settings = [] if master.startswith("sc://") else [word for pair in small.items() for word in ("--conf", "=".join(pair))]
    return list(map(str, ["pipeline", *words, "-n", cluster.nameserver, "--master", master, *settings]))


def run(home: Path, master: str, cluster: Cluster, *words: object, given: Mapping[str, str] | None = None) -> Done:
    """Run a command as a process of its own."""
    home.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "skyrocket", *command(master, cluster, *words)],
        cwd=home,
        env={**command_environment(home), **(given or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S_MAX,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def document(done: Done, exit_code: int = 0) -> dict[str, Any]:
    assert done.returncode == exit_code, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module", params=["local", "standalone", "connect"])
def master(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "local":
        yield "local[2]"
    elif request.param == "standalone":
        yield request.getfixturevalue("two_workers")
    else:
        pytest.importorskip("grpc")
        with connect_server(tmp_path_factory.mktemp("connect"), config_with_archive()) as address:
            yield address


@pytest.fixture(scope="module")
def job(master: str, ours: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Run a job on the master, in a process that all tests of this master share, and return the document that it prints."""
    home = tmp_path_factory.mktemp("jobs")
    with CommandProcess(home, command_environment(home)) as process:
        yield lambda *words, exit_code=0: document(process.run(*command(master, ours, *words)), exit_code)


# Local mode is that of all other tests, so these three need no JVM of their own for it.
ON_CLUSTERS = pytest.mark.parametrize("master", ["standalone", "connect"], indirect=True, scope="module")


def test_archive_and_replay_run_on_any_master(job: Job, ours: Cluster, topic: str, tmp_path: Path):
    for name in (topic, f"{topic}-again"):
        create(ours.nameserver, name)
    fill(ours.nameserver, topic, ours.broker_name, 300)
    folders = [tmp_path / "first", tmp_path / "second"]
    archived = job("archive", topic, "--to", folders[0], "--json")
    assert (archived["messages"], archived["lastBatch"], archived["topics"][topic]["messages"]) == (300, 1, 300)
    words = ["replay", "--archive", folders[0], "--to", f"{topic}-again", "--progress", tmp_path / "progress", "--json"]
    assert job(*words)["sent"] == 300
    job("archive", f"{topic}-again", "--to", folders[1], "--json")
    assert contents(rows(folders[1])) == contents(rows(folders[0]))


def test_an_audit_runs_on_any_master(job: Job, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    stamps = [{"SR_PID": "p1", "SR_SEQ": str(number)} for number in range(1, 101) if number != 42]
    with Producer(ours.nameserver, group="stamping") as producer:
        batch = [Message(topic, b"m", properties=stamp) for stamp in stamps]
        producer.send_batch(batch, queue=Queue(topic, ours.broker_name, 0))
    audited = job("audit", topic, "--partitions", 4, "--json", exit_code=1)
    assert audited["messages"] == 99
    assert [stream["missingNumbers"] for stream in audited["streams"]] == [[[42, 42]]]


@ON_CLUSTERS
def test_a_drain_and_the_verification_of_its_archive_run_on_clusters(job: Job, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 300)
    with Admin(ours.nameserver) as admin:
        admin.groups.create(topic)
        admin.offsets.set(topic, {Queue(topic, ours.broker_name, number): 50 for number in (0, 1)})
    words = ["drain", topic, topic, "--to", tmp_path / "d", "--tag", "paid", "--subscribed", "true", "--yes", "--json"]
    drained = job(*words)
    assert (drained["state"], drained["archived"], drained["resent"] + drained["replayed"]) == ("moved", 200, 200)
    stores = [sample_store(tmp_path / "store")]
    verified = job("verify", *stores, "--archive", tmp_path / "d", "--json")
    assert (verified["isSound"], [one["kind"] for one in verified["results"]]) == (True, ["store", "archive"])
    assert verified["results"][1]["counts"]["compared with the topic"] == 200


@ON_CLUSTERS
def test_a_table_is_maintained_on_clusters(job: Job, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    with Producer(ours.nameserver, group="changes") as producer:
        batch = [Message(topic, json.dumps({"id": n % 10, "v": n, "name": f"n{n}"}).encode()) for n in range(100)]
        producer.send_batch(batch, queue=Queue(topic, ours.broker_name, 0))
    place = delta_place(tmp_path / "table")
    words = ["table", topic, "--to", place.to, "--key", "id", "--version", "v", "--json"]
    done = job(*words)
    assert (done["messages"], done["applied"], done["columns"]["v"]) == (100, 100, "bigint")
    assert place.state() == {str(n % 10): (n, f"n{n}") for n in range(90, 100)}


@pytest.mark.parametrize("master", ["standalone"], indirect=True, scope="module")
def test_the_sign_up_demo_runs_on_a_standalone_cluster(master: str, ours: Cluster, tmp_path: Path):
    words = ["signup-demo", "--seconds", 4, "--rate", 10, "--minute", 1, "--json"]
    assert document(run(tmp_path / "home", master, ours, *words))["isClean"]


@pytest.mark.parametrize("master", ["standalone"], indirect=True, scope="module")
def test_workers_without_the_package_get_it_as_an_archive_of_spark(master: str, ours: Cluster, topic: str, tmp_path: Path):
    """As on YARN and Kubernetes: `spark.archives` is unpacked beside each executor, whose path of modules begins there."""
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 300)
    packages = Path(skyrocket.__file__).parents[1]
    packed = shutil.make_archive(str(tmp_path / "packages"), "gztar", packages, "skyrocket")
    # The driver plans with the same Python. It finds the package beside the command.
    python = python_without_skyrocket(tmp_path / "python")
    assert (
        b"No module named 'skyrocket'"
        in subprocess.run([python, "-c", "import skyrocket"], stderr=subprocess.PIPE, check=False).stderr
    )
    bare = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(packages)}
    words = ["archive", topic, "--to", tmp_path / "a", "--json"]
    shipped = ["--conf", f"spark.archives={packed}#packages", "--conf", "spark.executorEnv.PYTHONPATH=packages"]
    assert document(run(tmp_path / "home", master, ours, *words, *shipped, given=bare))["messages"] == 300
    assert len(rows(tmp_path / "a")) == 300


@pytest.mark.parametrize("master", ["standalone"], indirect=True, scope="module")
def test_both_workers_had_executors_of_every_job(master: str, cluster_home: Path):
    applications = [{path.name for path in home.glob("app-*")} for home in sorted(cluster_home.glob("work-*"))]
    assert [len(found) > 0 for found in applications] == [True, True]
    assert applications[0] == applications[1]


def test_output_is_a_table_and_errors_are_one_sentence(ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 30)
    done = run(tmp_path, "local[2]", ours, "archive", topic, "--to", tmp_path / "a", "--dry-run")
    head, row = done.stdout.splitlines()
    assert (head.split(), row.split()) == (["TOPIC", "WOULD", "ARCHIVE", "FILES", "BYTES"], [topic, "30", "0", "0"])
    assert not (tmp_path / "a").exists()
    missing = run(tmp_path, "local[2]", ours, "archive", "absent", "--to", tmp_path / "a")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.splitlines()[-1].startswith("Topic 'absent' does not exist at ")
    assert "Traceback" not in missing.stderr
    assert not (tmp_path / "a").exists()

"""The job `signup-demo` in a real Spark, with our broker and Apache's: its funnel, its command, its own cluster."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.cli.pipeline_jobs.own_cluster import run_own_cluster
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.pipelines.signup.funnel import funnel_totals, make_funnel
from skyrocket.pipelines.signup.funnel_stream import FunnelStream
from skyrocket.pipelines.signup.plan import make_plan
from skyrocket.pipelines.signup.service_runner import ServiceRunners
from skyrocket.pipelines.signup.sign_ups import DemoSettings, SignUpBody, draw_sign_ups, encode_body, split_users
from tests.spark.conftest import Cluster
from tests.support.waiting import WAIT_S_MAX, wait_until

SETTINGS = DemoSettings(seconds=8, rate=15, seed=5, minute_s=2)
MINUTE_MS = 2_000
BEGAN_MS = 1_800_000_000_000


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


def test_the_funnel_counts_each_user_once_in_the_minute_in_which_it_happened(spark: SparkSession, ours: Cluster, topic: str):
    steps_topic = f"{topic}-steps"
    sign_ups = draw_sign_ups(SETTINGS, 8, "u")
    sound, poison = split_users(sign_ups)
    bodies = {one.user: json.loads(encode_body(one, BEGAN_MS, 2)) for one in sign_ups if not one.is_poison}
    half = sorted(sound)[::2]  # of whom the sms service tells, twice
    with Admin(ours.nameserver) as admin, Producer(ours.nameserver) as producer:
        for name in (topic, steps_topic):
            admin.topics.create(name, queues=2)
        stream = FunnelStream(spark, {"nameserver": ours.nameserver}, [topic, steps_topic], 2, f"funnel_{os.getpid()}")
        try:
            assert stream.finish() == []
            for one in sign_ups:
                producer.send(Message(topic, encode_body(one, BEGAN_MS, 2), tag=one.channel, keys=[one.user]))
            first = make_funnel(stream.finish())
            for user in half * 2:
                step = SignUpBody(user, bodies[user]["at"], step="sms")
                producer.send(Message(steps_topic, msgspec.json.encode(step), tag="sms", keys=[user]))
            second = make_funnel(stream.finish())
        finally:
            stream.stop()
    minutes = [body["at"] - body["at"] % MINUTE_MS for body in bodies.values()]
    registered = {minute.minute_ms: minute.users["registered"] for minute in first if minute.users["registered"]}
    assert registered == {minute: minutes.count(minute) for minute in set(minutes)}
    assert sum(minute.late for minute in first) == sum(body["late"] for body in bodies.values()) > 0
    assert sum(minute.unreadable for minute in first) == len(poison) > 0
    assert funnel_totals(first)["sms"] == 0
    assert funnel_totals(second) == {**funnel_totals(first), "sms": len(half)}


@pytest.mark.usefixtures("keeps_spark")
def test_the_demo_loses_nothing_and_serves_each_user_once(cluster: Cluster, tmp_path: Path):
    page = tmp_path / "signup.html"
    given = ["--seconds", "8", "--rate", "15", "--seed", "5", "--minute", "2"]
    command = ["pipeline", "signup-demo", *given, "-n", cluster.nameserver, "--json", "--report", str(page)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    drawn = draw_sign_ups(SETTINGS, make_plan(8).queued_s, "u")
    sound, poison = split_users(drawn)
    apps = sum(channel == "app" for channel in sound.values())
    assert (document["isClean"], document["problems"]) == (True, [])
    assert [(one["service"], one["users"], one["served"], one["twice"]) for one in document["services"]] == [
        ("sms", len(sound), len(sound), []),
        ("push", apps, apps, []),
        ("coupons", len(sound), len(sound), []),
        ("red-packets", len(sound), len(sound), []),
    ]
    assert document["duplicates"] == sum(one.is_duplicate for one in drawn) > 0
    assert document["poison"] == len(poison) > 0
    assert {one["user"] for one in document["deadLetters"]} == set(poison)
    assert (document["audit"]["messages"], document["audit"]["missing"]) == (len(drawn), 0)
    assert sum(minute["registered"] for minute in document["funnel"]) == len(sound)
    assert sum(minute["red-packets"] for minute in document["funnel"]) == len(sound)
    assert len(document["funnel"]) >= 3
    assert [one["what"].split(":")[0] for one in document["events"]] == ["coupons", "coupons", "red-packets"]
    backlogs = {one["service"]: one["backlogMax"] for one in document["services"]}
    assert backlogs["coupons"] > 0
    assert backlogs["red-packets"] > backlogs["sms"]
    assert document["latencies"]["inLine"]["percentilesMs"]["50"] >= 100, "two steps of 50 ms at least"
    assert "Every service served every user exactly once" in page.read_text()
    with Admin(cluster.nameserver) as admin:
        assert [name for name in admin.groups.names() if name.startswith("signup-")] == []
        names = "topics of the demo are left"
        wait_until(lambda: not [name for name in admin.topics.names(internal=True) if "signup-" in name], names)


def test_sigterm_removes_topics_and_groups(ours: Cluster):
    command = [sys.executable, "-m", "skyrocket", "pipeline", "signup-demo", "--seconds", "60", "-n", ours.nameserver]
    small = ["--master", "local[1]", "--conf", "spark.driver.memory=512m"]

    def left() -> list[str]:
        with Admin(ours.nameserver) as admin:
            return [name for name in [*admin.topics.names(internal=True), *admin.groups.names()] if "signup-" in name]

    with subprocess.Popen([*command, *small], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until(lambda: left() or process.poll() is not None, "the demo creates no topic")
        process.terminate()
        _, errors = process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode == 130, errors.decode()
    assert b"Traceback" not in errors
    wait_until(lambda: not left(), "topics or groups of the demo are left")


@pytest.mark.usefixtures("keeps_spark")
def test_a_loss_and_an_effect_that_happened_twice_are_found_and_exit_code_1(
    ours: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A real run, in which someone takes a coupon away and grants another one twice before the demo looks."""
    stop, planted = ServiceRunners.stop, []

    def stop_and_tamper(services: ServiceRunners) -> None:
        stop(services)
        with sqlite3.connect(services["coupons"].ledger_path) as database:
            lost, twice = (user for (user,) in database.execute("SELECT user FROM effects ORDER BY user LIMIT 2"))
            database.execute("DELETE FROM effects WHERE user = ?", (lost,))
            database.execute("INSERT INTO effects VALUES (?, 1)", (twice,))
        planted.extend((lost, twice))

    monkeypatch.setattr(ServiceRunners, "stop", stop_and_tamper)
    page = tmp_path / "signup.html"
    given = ["--seconds", "4", "--rate", "10", "--minute", "1"]
    done = CliRunner().invoke(app, ["pipeline", "signup-demo", *given, "-n", ours.nameserver, "--report", str(page)])
    lost, twice = planted
    problems = [f"coupons: 1 user got nothing: {lost}.", f"coupons: 1 user got it more than once: {twice}."]
    assert done.exit_code == 1, done.output
    assert done.stdout.endswith("\n".join(["The demo found problems:", *(f"  {problem}" for problem in problems)]) + "\n")
    assert [problem for problem in problems if problem not in page.read_text()] == []


def test_the_demos_own_cluster_serves_and_is_gone_afterwards():
    with run_own_cluster() as nameserver:
        with Admin(nameserver) as admin:
            assert [broker.broker_name for broker in admin.cluster.brokers()] == ["broker-a"]
        host, port = nameserver.split(":")
        assert host == "127.0.0.1"
        assert int(port) not in (0, 9876)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5).close()

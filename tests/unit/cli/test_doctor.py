"""`skyrocket doctor`: what a person sees, what a program reads, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skyrocket.cli.main import app
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.ports import free_port
from tests.support.stores.sample_stores import flip, sample_store

SOUND, PROBLEMS, NOT_LOOKED = 0, 1, 2


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    with sync.LocalBroker({"autoCreateTopicEnable": "false"}) as running:
        yield running


def doctor(*arguments: str, nameserver: str = "") -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments], env={"NAMESRV_ADDR": nameserver})


def test_a_sound_cluster(broker: SyncBroker):
    done = doctor("--every", "0", nameserver=broker.nameserver)
    assert done.exit_code == SOUND, done.output
    assert "Looked at: 1 nameserver, 1 broker, 0 topics, 0 groups, this machine." in done.stdout


def test_a_problem_is_shown_with_evidence_and_advice(broker: SyncBroker):
    done = doctor("--topic", "orders", "--every", "0", nameserver=broker.nameserver)
    assert done.exit_code == PROBLEMS
    head, what, evidence, advice, page = done.stdout.split("\n\n")[0].splitlines()
    assert head == "PROBLEM topic-missing: topic orders"
    assert "'No route info of this topic'" in what
    assert evidence == "  Evidence: autoCreateTopicEnable is false at broker-a."
    assert advice == "  Do: Create it with: skyrocket topic create orders"
    assert page == "  More: docs/doctor.md#topic-missing"


def test_a_document_for_programs(broker: SyncBroker):
    done = doctor("--topic", "orders", "--every", "0", "--json", nameserver=broker.nameserver)
    document = json.loads(done.stdout)
    assert (done.exit_code, document["sound"], document["unanswered"]) == (PROBLEMS, False, [])
    (found,) = (one for one in document["findings"] if one["id"] == "topic-missing")
    assert found.keys() == {"id", "severity", "about", "what", "evidence", "advice", "page"}
    assert found["severity"] == "problem"


def test_nothing_can_be_looked_at_without_a_nameserver():
    done = doctor(nameserver=f"127.0.0.1:{free_port()}")
    assert done.exit_code == NOT_LOOKED
    assert done.stderr.startswith("No nameserver answers: ")
    assert done.stderr.count("\n") == 1


def test_a_store_directory_needs_no_cluster(tmp_path: Path):
    store = sample_store(tmp_path / "store")
    done = doctor("--store", str(store), "--json", nameserver="127.0.0.1:1")
    assert "store-damaged" not in done.stdout
    assert f"store {store}" in json.loads(done.stdout)["lookedAt"]
    flip(sorted((store / "commitlog").iterdir())[0], 3_000)
    done = doctor("--store", str(store), nameserver="127.0.0.1:1")
    assert done.exit_code == PROBLEMS
    assert done.stdout.startswith(f"PROBLEM store-damaged: store {store}")


def test_a_store_and_a_cluster_together(broker: SyncBroker, tmp_path: Path):
    store = sample_store(tmp_path / "store")
    done = doctor("--store", str(store), "--topic", "orders", "--every", "0", "--json", nameserver=broker.nameserver)
    looked_at = json.loads(done.stdout)["lookedAt"]
    assert {f"store {store}", "1 broker"} <= set(looked_at)
    assert looked_at.count("this machine") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--every", "-1"], "--every is -1; it must be 0 (one look) to 600 seconds."),
        (["--commit-log", "x"], "--commit-log belongs to a store directory. Give it with --store DIR."),
        (["--store", "/nonexistent-store"], "/nonexistent-store is not a store: it has neither 'commitlog' nor 'checkpoint'."),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments: list[str], sentence: str):
    done = doctor(*arguments)
    assert (done.exit_code, done.stderr) == (NOT_LOOKED, f"{sentence}\n")

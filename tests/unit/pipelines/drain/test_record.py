"""The record of a drain, and what is shown of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.drain import presentation
from skyrocket.pipelines.drain.drain_record import (
    RECORD,
    DrainedQueue,
    DrainRecord,
    check_same,
    read_record,
    require_record,
    write_record,
)
from skyrocket.pipelines.drain.proof import Check, DrainProof
from skyrocket.pipelines.errors import ArgumentError, DrainError
from skyrocket.report import render_page


def make_record(**given: object) -> DrainRecord:
    queues = [
        DrainedQueue(
            topic="orders", broker="broker-a", queue_id=0, start=5, stop=30, archived=25, selected=15, resent=8, passed_by=9
        ),
        DrainedQueue(topic="orders", broker="broker-a", queue_id=1, start=30, stop=30),
    ]
    about = {
        "id": "d1",
        "group": "coupons",
        "cluster": {"nameserver": "127.0.0.1:9876"},
        "topics": ["orders"],
        "selected": "(tags IN ('low'))",
    }
    about |= {"subscribed": "true", "by": "ann@ops-1", "began": "2026-11-18T10:00:00+00:00", "state": "moved", "queues": queues}
    return DrainRecord(**{**about, **given})


def test_a_record_is_read_as_it_was_written(tmp_path: Path):
    assert read_record(tmp_path) is None
    write_record(tmp_path, make_record())
    assert read_record(tmp_path) == make_record()
    assert make_record().ranges[Queue("orders", "broker-a", 0)] == QueueBounds(5, 30)


def test_a_folder_without_a_record_or_with_something_else_is_one_sentence(tmp_path: Path):
    with pytest.raises(ArgumentError, match=r"is not the archive of a drain\. Make one with: skyrocket pipeline drain GROUP"):
        require_record(tmp_path)
    (tmp_path / "_skyrocket").mkdir()
    (tmp_path / RECORD).write_text("[]")
    with pytest.raises(DrainError, match="is not the record of a drain"):
        read_record(tmp_path)
    write_record(tmp_path, make_record(version=2))
    with pytest.raises(DrainError, match=r"has version 2\. This program knows version 1"):
        read_record(tmp_path)


@pytest.mark.parametrize("other", [("g", ["orders"]), ("coupons", ["orders", "bills"])])
def test_a_folder_of_other_arguments_is_refused(other: tuple[str, list[str]]):
    check_same(Path("x"), make_record(), "coupons", ["orders"], "(tags IN ('low'))")
    with pytest.raises(ArgumentError, match="x has the drain of group 'coupons' from orders"):
        check_same(Path("x"), make_record(), *other, "(tags IN ('low'))")


def test_the_summary_has_the_command_that_brings_messages_back():
    text = "\n".join(presentation.drain_sentences(make_record(), "/mnt/my drain"))
    command = shlex.split(next(line for line in text.splitlines() if "pipeline replay" in line))
    assert command[:7] == ["skyrocket", "pipeline", "replay", "--archive", "/mnt/my drain", "--to-group", "coupons"]
    assert command[command.index("--where") + 1] == "coalesce((tags IN ('low')), false)"
    assert command[command.index("--progress") + 1] == "/mnt/my drain/_skyrocket/replayed"
    assert "8 messages that were not selected are in the group's retry topic." in text
    assert "2 messages the group does not subscribe to." in text
    assert "4 messages were consumed while the job ran" in text
    assert command[-2:] == ["--namesrv", "127.0.0.1:9876"]
    other = make_record(cluster={"addressServer": "http://a/ns", "namespace": "shop", "tls": "true"})
    assert presentation.prove_command(other, "/x").endswith("--prove /x --address-server http://a/ns --namespace shop --tls")
    assert "--where" not in presentation.replay_command(make_record(selected="true"), "/x")


def test_rows_leave_out_queues_without_a_backlog():
    assert presentation.drain_rows(make_record()) == [("orders", "broker-a", 0, 5, 30, 25, 15, 8, 4)]
    assert presentation.plan_rows(make_record()) == [("orders", "broker-a", 0, 5, 30, 25)]


def test_a_plan_says_what_will_be_archived_and_resent():
    first = "25 messages will be archived to /x, and group 'coupons' moved past them."
    assert presentation.plan_sentence(make_record(selected="true"), "/x") == first
    mixed = make_record()
    resent = f"Those for which {mixed.selected} does not hold will be resent to the group at once."
    assert presentation.plan_sentence(mixed, "/x") == f"{first} {resent}"


def test_pages_show_the_drain_and_its_proof():
    page = render_page(presentation.drain_page(make_record(), "/mnt/x"))
    assert "coupons" in page
    assert "--to-group coupons" in page
    checks = [Check("offsets in the files", 25, 25), Check("messages replayed", 15, 14, ("Offset 9 is not there.",))]
    proof = DrainProof("/mnt/x", make_record(), checks)
    assert "Offset 9 is not there." in render_page(presentation.proof_page(proof))
    assert (presentation.proof_document(proof)["isSound"], presentation.proof_rows(proof)[1][-1]) == (False, "NOT SOUND")
    assert presentation.proof_sentences(DrainProof("/x", make_record(), checks[:1]))[0].startswith("Nothing was lost")
    assert not Check("numbers", 2, 1).is_sound

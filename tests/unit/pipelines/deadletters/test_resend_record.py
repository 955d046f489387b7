"""The record of resent letters: what it remembers across crashes, and what it refuses. And the resent message."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skyrocket.client import InvalidMessageError
from skyrocket.pipelines.deadletters.resend import lowest_ends, resent_message
from skyrocket.pipelines.deadletters.resend_record import LetterCluster, ResendRecord, ResendState
from skyrocket.pipelines.errors import ArgumentError, PipelineError
from tests.unit.pipelines.deadletters.letters import NOW_MS, letter

HERE = LetterCluster(frozenset({"ns-1:9876", "ns-2:9876"}))
ENDS = {"orders": {"broker-a:0": 17}}
BEGIN = {"event": "begin", "run": "r", "letters": ["a:1", "a:2", "a:3"], "ends": ENDS}
SENT = {"event": "sent", "run": "r", "letter": "a:1", "id": "M1"}
FAILED = {"event": "failed", "run": "r", "letter": "a:2", "reason": "refused"}


def test_letters_are_sent_failed_or_open():
    state = ResendState()
    for event in (BEGIN, SENT, FAILED, {"event": "of a later version"}):
        state.apply(event)
    assert state.sent == {"a:1": "M1"}
    assert state.open == {"a:3": ENDS}


def test_what_was_sent_stays_sent():
    state = ResendState()
    for event in (BEGIN, SENT, BEGIN):
        state.apply(event)
    assert state.sent == {"a:1": "M1"}
    assert set(state.open) == {"a:2", "a:3"}


def test_the_file_is_read_again(tmp_path: Path):
    path = tmp_path / "record.jsonl"
    with ResendRecord(path, HERE) as record:
        record.write([BEGIN])
        record.write([SENT, FAILED])
        assert record.state.open == {"a:3": ENDS}
    with ResendRecord(path, HERE) as record:
        assert (record.state.sent, record.state.open) == ({"a:1": "M1"}, {"a:3": ENDS})
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == [*("cluster", "begin", "sent", "failed")]


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_line_that_a_crash_cut_off_did_not_happen(tmp_path: Path, kept: int):
    path = tmp_path / "record.jsonl"
    with ResendRecord(path, HERE) as record:
        record.write([BEGIN])
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps(SENT).encode()[:kept])
    with ResendRecord(path, HERE) as record:
        assert record.state.sent == {}
        record.write([FAILED])
    assert path.read_bytes() == whole + json.dumps(FAILED).encode() + b"\n"


@pytest.mark.parametrize("text", ["hello\n", "hello", "[1]\n", '{"event":"sent"}\n', '{"event":"begin","letters":5,"ends":{}}\n'])
def test_another_file_is_refused_and_not_touched(tmp_path: Path, text: str):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="is not an event of a resend"), ResendRecord(path, HERE):
        pass
    assert path.read_text() == text


def test_a_folder_that_is_missing_is_one_sentence(tmp_path: Path):
    with (
        pytest.raises(ArgumentError, match="cannot be opened: No such file or directory"),
        ResendRecord(tmp_path / "no" / "file", HERE),
    ):
        pass


def test_two_jobs_cannot_use_one_record(tmp_path: Path):
    with (
        ResendRecord(tmp_path / "r", HERE),
        pytest.raises(PipelineError, match="Another job resends"),
        ResendRecord(tmp_path / "r", HERE),
    ):
        pass


def test_a_record_belongs_to_one_cluster(tmp_path: Path):
    path = tmp_path / "r"
    with ResendRecord(path, HERE) as record:
        record.write([BEGIN])
    written = path.read_bytes()
    for other in (LetterCluster(frozenset({"ns-9:9876"})), LetterCluster(HERE.nameservers, "shop")):
        with pytest.raises(ArgumentError) as refused, ResendRecord(path, other):
            pass
        assert str(refused.value) == (
            f"The record {path} has letters of the cluster at ns-1:9876;ns-2:9876, not of {other}. "
            "Give another file with --record."
        )
    assert path.read_bytes() == written
    with ResendRecord(path, LetterCluster(frozenset({"ns-2:9876", "ns-3:9876"}))) as record:
        assert set(record.state.open) == {"a:1", "a:2", "a:3"}, "one nameserver was replaced"
    assert path.read_bytes() == written


def test_letters_at_one_place_are_told_apart_by_their_messages():
    state = ResendState()
    state.apply({"event": "sent", "letter": letter(1).letter_id, "id": "R1"})
    state.apply({"event": "begin", "letters": [letter(2).letter_id], "ends": ENDS})
    assert (state.is_sent(letter(1)), state.is_open(letter(2))) == (True, True)
    assert not state.is_sent(letter(1, message_id="of another broker-a"))
    assert not state.is_open(letter(2, message_id="of another broker-a"))


@pytest.mark.parametrize(("days_later", "is_sent"), [(-3, True), (0, True), (3, False)])
def test_a_record_of_an_earlier_version_names_letters_by_their_places(tmp_path: Path, days_later: int, is_sent: bool):
    at = datetime.fromtimestamp(NOW_MS / 1000, UTC).isoformat()
    begin = {"event": "begin", "run": "r", "at": at, "letters": ["broker-a:1001", "broker-a:1002"], "ends": ENDS}
    sent = {"event": "sent", "run": "r", "letter": "broker-a:1001", "id": "R1"}
    path = tmp_path / "record.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in (begin, sent)))
    died_ms = NOW_MS + days_later * 24 * 3600 * 1000 - 1_000
    with ResendRecord(path, HERE) as record:
        found = record.state
        assert found.is_sent(letter(1, died_ms=died_ms)) == is_sent
        assert found.is_open(letter(2, died_ms=died_ms)) == is_sent
        assert found.cluster == HERE, "the first cluster that uses it becomes its cluster"
    with (
        pytest.raises(ArgumentError, match="has letters of the cluster at"),
        ResendRecord(path, LetterCluster(frozenset({"x:1"}))),
    ):
        pass


def test_lowest_ends():
    assert lowest_ends("orders", [ENDS, {"orders": {"broker-a:0": 9, "b:1": 4}}, {"bills": {"broker-a:0": 1}}]) == {
        "broker-a:0": 9,
        "b:1": 4,
    }


def test_a_resent_message_has_the_letters_content_and_tells_who_resent_it():
    message = resent_message(
        letter(5, properties={"colour": "red", "UNIQ_KEY": "M5", "__SHARDINGKEY": "u-1"}), by="ann@ops", at="now"
    )
    assert (message.topic, message.body, message.tag, message.keys, message.sharding_key) == (
        *("orders", b"body 5", "paid", ("o-5",), "u-1"),
    )
    assert dict(message.properties) == {
        "colour": "red",
        "SR_RESENT_LETTER": "broker-a:1005:M5",
        "SR_RESENT_FROM": "%DLQ%coupons",
        "SR_RESENT_MESSAGE": "M5",
        "SR_RESENT_BY": "ann@ops",
        "SR_RESENT_AT": "now",
    }


def test_a_letter_without_an_origin_cannot_be_resent():
    with pytest.raises(InvalidMessageError, match="does not tell the topic"):
        resent_message(letter(origin_topic=""), by="ann", at="now")

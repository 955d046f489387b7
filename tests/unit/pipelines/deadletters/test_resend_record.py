"""The record of resent letters: what it remembers across crashes, and what it refuses. And the resent message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyrocket.client import InvalidMessageError
from skyrocket.pipelines.deadletters.resend import lowest_ends, resent_message
from skyrocket.pipelines.deadletters.resend_record import ResendRecord, ResendState
from skyrocket.pipelines.errors import ArgumentError, PipelineError
from tests.unit.pipelines.deadletters.letters import letter

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
    with ResendRecord(path) as record:
        record.write([BEGIN])
        record.write([SENT, FAILED])
        assert record.state.open == {"a:3": ENDS}
    with ResendRecord(path) as record:
        assert (record.state.sent, record.state.open) == ({"a:1": "M1"}, {"a:3": ENDS})
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["begin", "sent", "failed"]


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_line_that_a_crash_cut_off_did_not_happen(tmp_path: Path, kept: int):
    path = tmp_path / "record.jsonl"
    with ResendRecord(path) as record:
        record.write([BEGIN])
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps(SENT).encode()[:kept])
    with ResendRecord(path) as record:
        assert record.state.sent == {}
        record.write([FAILED])
    assert path.read_bytes() == whole + json.dumps(FAILED).encode() + b"\n"


@pytest.mark.parametrize("text", ["hello\n", "hello", "[1]\n", '{"event":"sent"}\n', '{"event":"begin","letters":5,"ends":{}}\n'])
def test_another_file_is_refused_and_not_touched(tmp_path: Path, text: str):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="is not an event of a resend"), ResendRecord(path):
        pass
    assert path.read_text() == text


def test_a_folder_that_is_missing_is_one_sentence(tmp_path: Path):
    with (
        pytest.raises(ArgumentError, match="cannot be opened: No such file or directory"),
        ResendRecord(tmp_path / "no" / "file"),
    ):
        pass


def test_two_jobs_cannot_use_one_record(tmp_path: Path):
    with (
        ResendRecord(tmp_path / "r"),
        pytest.raises(PipelineError, match="Another job resends"),
        ResendRecord(tmp_path / "r"),
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
        "SR_RESENT_LETTER": "broker-a:1005",
        "SR_RESENT_FROM": "%DLQ%coupons",
        "SR_RESENT_MESSAGE": "M5",
        "SR_RESENT_BY": "ann@ops",
        "SR_RESENT_AT": "now",
    }


def test_a_letter_without_an_origin_cannot_be_resent():
    with pytest.raises(InvalidMessageError, match="does not tell the topic"):
        resent_message(letter(origin_topic=""), by="ann", at="now")

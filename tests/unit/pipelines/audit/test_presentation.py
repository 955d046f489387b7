"""How an audit is shown, and the file of what producers sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.client.helpers.loss_detection import Gap
from skyrocket.client.queues import Queue
from skyrocket.pipelines.audit.findings import AuditReport, NumberRun, StreamKey, audit_stream
from skyrocket.pipelines.audit.presentation import alert_text, audit_document, audit_page, ranges_text, stream_rows, verdict
from skyrocket.pipelines.audit.sent_file import parse_sent, read_sent, sent_lines
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.report import render_page

QUEUE = Queue("orders", "broker-a", 0)
FAULTY = audit_stream(StreamKey("<p1>", QUEUE), [NumberRun(1, 3, 0), NumberRun(6, 9, 3), NumberRun(9, 9, 8)])
CLEAN = audit_stream(StreamKey("p2", QUEUE), [NumberRun(1, 50, 10)], sent=50)


def test_ranges_are_named_and_bounded():
    assert ranges_text([Gap(4, 4), Gap(7, 9)]) == "4, 7–9"
    assert ranges_text([Gap(number, number) for number in range(20)], 3) == "0, 1, 2 and 17 more"


def test_verdicts():
    assert verdict(AuditReport([CLEAN], {}, 50)) == "50 messages of 1 stream: each once and in order."
    assert verdict(AuditReport([FAULTY, CLEAN], {QUEUE: 1}, 59)) == (
        "59 messages of 2 streams: 2 missing, 1 repeated, 0 late. 1 message had no valid stamp and could not be checked."
    )
    assert verdict(AuditReport([], {QUEUE: 3}, 3)).startswith("No message has a sequence stamp.")


def test_rows_alerts_and_document():
    assert stream_rows([FAULTY])[0] == ("<p1>", "orders", "broker-a", 0, 9, 8, "–", 2, 1, 0, "missing 4–5; repeated 9")
    assert alert_text(FAULTY) == "Producer <p1> in queue 0 of orders at broker-a: missing 4–5; repeated 9."
    document = audit_document(AuditReport([FAULTY, CLEAN], {}, 58))
    assert (document["isClean"], document["missing"]) == (False, 2)
    assert document["streams"][0]["missingNumbers"] == [[4, 5]]


@pytest.mark.parametrize("streams", [[], [CLEAN], [FAULTY, CLEAN]])
def test_pages(streams: list):
    page = render_page(audit_page(AuditReport(streams, {QUEUE: 1}, 5), ["orders"], "127.0.0.1:9876", 1))
    assert "<p1>" not in page
    assert ("missing 4–5" in page) == (FAULTY in streams)


def test_what_producers_sent_is_written_and_read():
    counts = {QUEUE: 12, Queue("orders", "broker-b", 1): 7}
    found = parse_sent([*sent_lines("p1", counts), "", *sent_lines("p1", {QUEUE: 9})])
    assert found == {StreamKey("p1", queue): last for queue, last in counts.items()}


@pytest.mark.parametrize("line", ["x", "[]", "{}", '{"producer":"p","topic":"t","brokerName":"b","queueId":"x","last":1}'])
def test_wrong_lines_are_one_sentence(line: str):
    with pytest.raises(ArgumentError, match="line 2, does not say what a producer sent"):
        parse_sent(["", line], "sent.jsonl")


def test_files_that_cannot_be_read_are_one_sentence(tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match="cannot be read: it is not UTF-8"):
        read_sent(tmp_path / "binary")
    with pytest.raises(ArgumentError, match="cannot be read: No such file"):
        read_sent(tmp_path / "missing")

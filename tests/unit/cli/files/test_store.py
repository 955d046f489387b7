"""`skyrocket store`: its output, its exit codes, and that it does not change the directory."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skyrocket.cli.files.store import app
from skyrocket.store.offline.offline_store import OfflineStore
from tests.support.stores.ledgers import golden_ledger
from tests.support.stores.sample_stores import NOW_MS, fingerprint, flip, golden_store, overwrite, sample_record, sample_store

COUNT = 60
KEYS = [
    "topic",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "msgId",
    "tags",
    "keys",
    "properties",
    "storeTimestamp",
    "bornTimestamp",
    "bodyLength",
    "bodyCrc",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("store"), COUNT)


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def dumped(*arguments: object) -> list[dict[str, Any]]:
    code, out, err = run("dump", *arguments, "--json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


# --- dump


def test_the_store_of_a_dledger_node_is_verified_and_dumped(tmp_path: Path):
    root = golden_ledger(tmp_path)
    code, out, _ = run("verify", root)
    assert code == 0
    assert "209 messages, 4 queues" in out
    assert [row["queueOffset"] for row in dumped(root, "--topic", "TD", "--queue", 1)] == list(range(44))
    assert dumped(root)[0]["physicalOffset"] == 48
    assert [row["physicalOffset"] for row in dumped(root, "--from", 48)] == [row["physicalOffset"] for row in dumped(root)]
    flip(root / "dledger-n2" / "data" / f"{0:020d}", 5000)
    code, out, _ = run("verify", root)
    assert code == 1
    assert out.startswith(f"dledger-n2/data/{0:020d} at 4945: 278 bytes of the log at 4945 cannot be read")
    (root / "commitlog").mkdir()
    (root / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
    code, out, err = run("dump", root)
    assert (code, out) == (2, "")
    assert "moved into a DLedger group" in err


def test_dump_of_an_unknown_topic_or_queue_says_so(store: Path):
    topics = sorted({row["topic"] for row in dumped(store)})
    code, out, err = run("dump", store, "--topic", "unheard-of")
    assert (code, out, err) == (1, "", f"There is no topic 'unheard-of' in {store}. Its topics are: {', '.join(topics)}.\n")
    queues = ", ".join(map(str, sorted({row["queueId"] for row in dumped(store, "--topic", topics[0])})))
    code, out, err = run("dump", store, "--topic", topics[0], "--queue", 99)
    assert (code, out, err) == (1, "", f"Topic '{topics[0]}' has no queue 99 in {store}. Its queues are: {queues}.\n")
    assert run("dump", store, "--topic", topics[0], "--from", "time:9999999999999") == (0, "", "")


def test_dump_prints_exactly_the_documented_fields(store: Path):
    rows = dumped(store)
    assert len(rows) == COUNT
    assert all(list(row) == KEYS for row in rows)
    sent = sample_record(5)
    assert rows[5] == {
        "topic": "topic-2",
        "queueId": 1,
        "queueOffset": rows[5]["queueOffset"],
        "physicalOffset": rows[5]["physicalOffset"],
        "msgId": f"7F000001{5:024X}",
        "tags": "Tag1",
        "keys": ["key-5", "shared-2"],
        "properties": {"UNIQ_KEY": f"7F000001{5:024X}", "KEYS": "key-5 shared-2", "TAGS": "Tag1", "naïve": "größe 中 😀"},
        "storeTimestamp": NOW_MS + 700,
        "bornTimestamp": NOW_MS - 5,
        "bodyLength": len(sent.body),
        "bodyCrc": zlib.crc32(sent.body),
    }


def test_a_message_without_properties_has_its_offset_id(store: Path):
    row = dumped(store)[8]
    place = f"{row['physicalOffset']:016X}"
    assert (row["tags"], row["keys"], row["properties"]) == (None, [], {})
    assert row["msgId"] == "20010DB8000000000000000000000007" + "00002A9F" + place


def test_dump_prints_bodies_with_the_body_option(store: Path):
    for number, row in enumerate(dumped(store, "--body")):
        assert list(row) == [*KEYS, "body"]
        assert base64.b64decode(row["body"]) == sample_record(number).body


def test_topic_queue_and_limit_select_messages(store: Path):
    rows = dumped(store)
    assert dumped(store, "--topic", "topic-1") == [row for row in rows if row["topic"] == "topic-1"]
    of_queue = dumped(store, "--topic", "topic-1", "--queue", 0)
    assert [row["queueOffset"] for row in of_queue] == list(range(len(of_queue)))
    assert dumped(store, "--limit", 3) == rows[:3]


def test_from_takes_a_physical_offset_a_queue_offset_or_a_time(store: Path):
    rows = dumped(store)
    assert dumped(store, "--from", rows[20]["physicalOffset"]) == rows[20:]
    assert dumped(store, "--from", rows[20]["physicalOffset"] + 1) == rows[21:]
    queue = ("--topic", "topic-1", "--queue", 0)
    assert dumped(store, *queue, "--from", "queue:4") == dumped(store, *queue)[4:]
    later = NOW_MS + 5000
    since = [row for row in rows if row["storeTimestamp"] >= later]
    moment = datetime.fromtimestamp(later / 1000, UTC)
    for text in (
        f"time:{later}",
        moment.isoformat(),
        f"time:{moment.isoformat()}",
        moment.astimezone().replace(tzinfo=None).isoformat(),
    ):
        assert dumped(store, "--from", text) == since
        assert dumped(store, *queue, "--from", text) == [row for row in dumped(store, *queue) if row["storeTimestamp"] >= later]
    place = rows[20]["physicalOffset"]
    assert dumped(store, *queue, "--from", place) == [row for row in dumped(store, *queue) if row["physicalOffset"] >= place]


@pytest.mark.parametrize(
    "arguments", [("--from", "yesterday"), ("--queue", "1"), ("--from", "queue:4"), ("--from", "queue:x"), ("--from", "-1")]
)
def test_invalid_arguments_are_refused(store: Path, arguments: tuple[str, ...]):
    code, out, err = run("dump", store, *arguments)
    assert (code, out) == (2, "")
    assert err


def test_the_text_dump_has_a_line_for_each_message(store: Path):
    code, out, _ = run("dump", store, "--body")
    lines = out.splitlines()
    assert (code, len(lines)) == (0, COUNT)
    assert "topic-2/1" in lines[5]
    assert "tags=Tag1  keys=key-5,shared-2" in lines[5]


def test_the_golden_store_is_dumped(tmp_path: Path):
    rows = dumped(golden_store(tmp_path), "--body")
    assert len(rows) == 64
    assert rows[0]["msgId"] == "FD0000000000000000000000000000020A2E1DBD16A64992301D0000"
    assert base64.b64decode(rows[0]["body"]) == b"hello 0"


def test_damage_is_reported_and_skipped(store: Path, tmp_path: Path):
    copy = shutil.copytree(store, tmp_path / "copy")
    rows = dumped(copy)
    overwrite(copy / "commitlog" / f"{0:020d}", rows[3]["physicalOffset"], b"damage")
    code, out, err = run("dump", copy, "--json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == rows[:3] + rows[4:]
    assert f"at {rows[3]['physicalOffset']} cannot be read" in err


# --- verify


def test_an_undamaged_store_is_reported_in_one_line(store: Path):
    code, out, err = run("verify", store)
    assert (code, err) == (0, "")
    assert out.startswith(f"Everything in {store} fits together: {COUNT} messages, 6 queues")
    assert out.count("\n") == 1


def test_each_finding_is_a_line_and_the_exit_code_is_1(store: Path, tmp_path: Path):
    copy = shutil.copytree(store, tmp_path / "copy")
    overwrite(copy / "consumequeue" / "topic-1" / "0" / f"{0:020d}", 20 + 12, b"\1" * 8)
    overwrite(copy / "consumequeue" / "topic-2" / "0" / f"{0:020d}", 40 + 12, b"\1" * 8)
    code, out, err = run("verify", copy)
    assert code == 1
    assert len(out.splitlines()) == 2
    assert out.startswith(f"consumequeue/topic-1/0/{0:020d} at 20: The entry for queue offset 1 of topic-1/0")
    assert err.startswith("2 findings")


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_a_directory_without_a_store_is_refused_in_one_sentence(tmp_path: Path, command: str):
    for directory in (tmp_path, tmp_path / "nowhere"):
        code, out, err = run(command, directory)
        assert (code, out) == (2, "")
        assert err == f"{directory} is not a store: it has neither 'commitlog' nor 'checkpoint'.\n"


@pytest.mark.parametrize("make", [golden_store, sample_store])
def test_no_command_changes_the_directory(tmp_path: Path, make: Any):
    directory = make(tmp_path / "store")
    before = fingerprint(directory)
    run("verify", directory)
    run("dump", directory)
    with OfflineStore(directory) as opened:
        topic, queue, *_ = opened.queues()[0]
    run("dump", directory, "--topic", topic, "--queue", queue, "--json", "--body")
    assert fingerprint(directory) == before

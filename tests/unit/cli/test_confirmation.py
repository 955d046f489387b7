"""What destroys asks first: at a terminal with a question, elsewhere with a refusal; --dry-run changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skyrocket.cli.main import app
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.terminal import answer_at_terminal

CONFIRM = "Confirm it with --yes, or look first with --dry-run."


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    with sync.LocalBroker() as running:
        invoke(running, "topic", "create", "orders", "--queues", "1")
        invoke(running, "send", "orders", "--body", "x", "--count", "3")
        invoke(running, "group", "create", "coupons")
        invoke(running, "offset", "reset", "coupons", "orders", "--to", "first", "--yes")
        invoke(running, "group", "create", "audit")
        invoke(running, "offset", "reset", "audit", "orders", "--to", "last", "--yes")
        yield running


def invoke(broker: SyncBroker, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "-n", broker.nameserver])


DESTROYS = [
    (["topic", "delete", "orders"], "Topic orders will be deleted, with its 3 messages"),
    (["group", "delete", "coupons"], "Group coupons will be deleted, with its offsets in orders."),
    (["offset", "reset", "coupons", "orders", "--to", "last"], "Group coupons skips 3 messages in topic orders."),
    (["offset", "skip", "coupons", "orders"], "Group coupons skips 3 messages in topic orders."),
    (["offset", "clone", "audit", "coupons", "orders"], "Group coupons skips 3 messages in topic orders."),
    (["offset", "clone", "coupons", "audit", "orders"], "Group audit gets 3 messages again in topic orders."),
    (
        ["cluster", "drain", "broker-a"],
        "Producers will send no more to broker broker-a. No other broker of its cluster is left for them.",
    ),
    (["cluster", "undrain", "broker-a"], "Producers will send to broker broker-a again"),
    (["config", "set", "broker-a", "fileReservedTime=9"], "1 setting of broker-a will be changed."),
    (["dlq", "resend", "coupons", "--all"], "0 letters of group coupons will be sent to their topics again"),
]


@pytest.mark.parametrize(("arguments", "sentence"), DESTROYS)
def test_without_a_terminal_it_is_refused_and_a_dry_run_changes_nothing(
    broker: SyncBroker, arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    done = invoke(broker, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence)
    assert done.stderr.endswith(f"{CONFIRM}\n")
    assert len(done.stderr.splitlines()) == 1
    dry = invoke(broker, *arguments, "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, "")
    assert sentence in dry.stdout
    assert dry.stdout.endswith("This was a dry run: nothing has changed.\n")
    assert invoke(broker, *arguments, "--dry-run", "--yes", "--json").stdout.startswith('{"dryRun":true')
    assert invoke(broker, "topic", "list").stdout == "orders\n"
    assert '"offset":0' in invoke(broker, "offset", "show", "coupons", "orders", "--json").stdout
    assert invoke(broker, "config", "get", "broker-a", "fileReservedTime").stdout == "72\n"
    assert list(tmp_path.iterdir()) == []


def test_what_loses_nothing_is_done_without_a_question(broker: SyncBroker):
    invoke(broker, "group", "create", "fresh")
    assert invoke(broker, "offset", "clone", "audit", "fresh", "orders", "--yes").exit_code == 0
    copied = invoke(broker, "offset", "clone", "audit", "fresh", "orders", "--json")
    assert (copied.exit_code, copied.stderr) == (0, "")
    assert '"offset":3' in copied.stdout
    again = invoke(broker, "offset", "clone", "audit", "fresh", "orders", "--dry-run")
    assert "Group fresh neither skips a message nor gets one again in topic orders." in again.stdout


def answer(broker: SyncBroker, text: str, *arguments: str) -> tuple[int, str, str]:
    return answer_at_terminal(text, *arguments, "-n", broker.nameserver)


def test_at_a_terminal_it_asks_and_no_is_the_default(broker: SyncBroker):
    invoke(broker, "topic", "create", "doomed")
    code, shown, output = answer(broker, "\n", "topic", "delete", "doomed")
    assert (code, output) == (1, "")
    assert "Topic doomed will be deleted, with its 0 messages" in shown
    assert "Nothing has changed." in shown
    assert "doomed" in invoke(broker, "topic", "list").stdout
    code, _, output = answer(broker, "y\n", "topic", "delete", "doomed", "--json")
    assert (code, output) == (0, '{"deleted":"doomed"}\n')
    assert "doomed" not in invoke(broker, "topic", "list").stdout

"""Servers that do not start or that break down: one sentence, and an exit code that says which."""

from __future__ import annotations

import asyncio
import logging
import signal

import pytest
import typer

from skyrocket.broker.errors import BrokerBrokenError
from skyrocket.cli.server_command import BROKE_DOWN, CANNOT_START, serve
from skyrocket.net.errors import NetError


@pytest.fixture(autouse=True)
def _keep_signals_and_log(monkeypatch: pytest.MonkeyPatch):
    """The command sets up signals, the log and the garbage collector for its own process, which here is that of the tests."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr("skyrocket.cli.server_command.tune_garbage_collector", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NetError("Cannot listen on 127.0.0.1:1: Permission denied."), CANNOT_START),
        (BrokerBrokenError("The broker stops."), BROKE_DOWN),
    ],
)
def test_a_typed_error_becomes_one_sentence_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]):
    async def main(_stopped: asyncio.Event) -> None:
        raise error

    with pytest.raises(typer.Exit) as left:
        serve(main)
    assert left.value.exit_code == code
    assert capsys.readouterr().err == f"{error}\n"

from __future__ import annotations

import logging

import pytest

from skyrocket.net import outside_log
from skyrocket.net.outside_log import LINES_MAX, VALUE_LENGTH_MAX, OutsideLog, escape


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outside(clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> OutsideLog:
    monkeypatch.setattr(outside_log, "LINES_MAX", LINES_MAX)
    caplog.set_level(logging.INFO, "outside-test")
    return OutsideLog(logging.getLogger("outside-test"), clock)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ümlauts 中文", "plain text, ümlauts 中文"),
        ("two\nlines\r\x1b[31mred\x00", r"two\nlines\r\x1b[31mred\x00"),
        ("right to left \u202e and half \ud83d", r"right to left \u202e and half \ud83d"),
        ("x" * (VALUE_LENGTH_MAX + 1), "x" * VALUE_LENGTH_MAX + "…"),
    ],
)
def test_text_from_outside_is_escaped_and_cut(text: str, shown: str):
    assert escape(text) == shown


def test_line_cannot_be_forged(outside: OutsideLog, caplog: pytest.LogCaptureFixture):
    outside.warning("Group '%s' has %d members.", "x\n2026-11-16 ERROR the disk is full", 3)
    assert caplog.messages == [r"Group 'x\n2026-11-16 ERROR the disk is full' has 3 members."]


def test_lines_of_a_kind_are_throttled_and_counted(outside: OutsideLog, clock: Clock, caplog: pytest.LogCaptureFixture):
    for number in range(1_000):
        outside.warning("Refused %s.", f"peer {number}")
    outside.info("Another kind.")
    assert len(caplog.messages) == LINES_MAX + 1
    clock.now_s += 61
    caplog.clear()
    outside.warning("Refused %s.", "one")
    outside.warning("Refused %s.", "two")
    assert caplog.messages == [f"Refused one. ({1_000 - LINES_MAX} more lines like this one were left out.)", "Refused two."]

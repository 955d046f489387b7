"""The benchmark of growth runs, at sizes that take a moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import Figure, growth


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch: pytest.MonkeyPatch):
    for name, value in (("BURSTS", 20), ("ROUNDS", 1), ("PULLS", 16), ("TOPIC_QUEUES_MAX", 2)):
        monkeypatch.setattr(growth, name, value)


def names(figures: Iterator[Figure]) -> list[str]:
    found = list(figures)
    for figure in found:
        assert re.fullmatch(r"\d+\.\d\d µs", figure.value)
        assert re.match(r"\d+\.\d\d of the first(, above 1\.2)?; \d+ MB resident$", figure.remark)
    assert found[0].remark.startswith("1.00 of the first;")
    return [figure.name for figure in found]


def test_more_queues(tmp_path: Path):
    assert names(growth.queue_figures(tmp_path, (1, 4))) == ["send, 1 queues", "send, 4 queues"]


def test_more_connections(tmp_path: Path):
    assert names(growth.connection_figures(tmp_path, (1, 66))) == [
        "send over one, the others idle, 1 connections",
        "send over one, the others idle, 66 connections",
        "send over 64 at a time, 66 connections",
    ]


def test_larger_store(tmp_path: Path):
    assert names(growth.store_figures(tmp_path, 0.02)) == [
        "pull, the last messages, an empty store",
        "pull, the last messages, 0.005 GB",
        "pull, the last messages, 0.02 GB",
        "pull, from the first message on, 0.005 GB",
        "pull, from the first message on, 0.02 GB",
        "send, an empty store",
        "send, 0.005 GB",
        "send, 0.02 GB",
    ]

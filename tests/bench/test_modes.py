"""The rows of "What each promise costs": which there are, how they are shown, and a tiny run on nodes of ours."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from bench.suite import generator, modes
from bench.suite.loads import BY_NAME
from bench.suite.modes import MODE_LOADS, MODE_ROUNDS, MODES, measure_modes, planned_modes_s
from bench.suite.progress import Progress
from bench.suite.record import APACHE, OURS, SERVERS, Result, Round, RunRecord
from bench.suite.tables import modes_table

from tests.support.tools import need

MODES_S_MAX = 240.0  # of make bench


def test_modes_add_less_than_four_minutes():
    assert planned_modes_s(MODES, SERVERS, MODE_ROUNDS, 2.0) < MODES_S_MAX


def test_each_mode_has_a_row_for_each_load_and_server():
    one = Round(messages=1000, seconds=0.1, cpu_s=0.02, requests=1000, p50_us=900.0, p99_us=4000.0)
    names = [mode.result_name(BY_NAME[load]) for mode in MODES for load in MODE_LOADS]
    record = RunRecord(results=[Result(name, server, [one]) for name in names for server in (APACHE, OURS)])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in modes_table(record).splitlines()]
    assert len(rows) == 2 + len(MODES) * len(MODE_LOADS) * 2
    assert rows[2] == ["ASYNC_FLUSH", "64 sync clients", OURS, "10,000", "20.0 µs", "900 µs", "4.00 ms"]
    assert rows[3] == ["", "", APACHE, "10,000", "20.0 µs", "900 µs", "4.00 ms"]
    assert rows[-2][:2] == ["DLedger group of three", "4 connections × 64 in flight"]
    assert "not in the last run" in modes_table(RunRecord())


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.nodes > 1], ids=lambda mode: mode.name)
def test_a_mode_of_several_nodes_is_measured_with_the_cpu_time_of_all(
    mode: modes.Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    need(generator.COMPILER)
    monkeypatch.setattr(modes, "WARM_UP_S", {OURS: 0.2})
    record = RunRecord()
    small = mode._replace(settings={**mode.settings, "mappedFileSizeCommitLog": 64 << 20, "maxHashSlotNum": 50_000})
    measure_modes([small], [OURS], 1, 0.5, tmp_path, record, Progress(1.0, out=io.StringIO()))
    assert record.left_out == []
    assert [result.load for result in record.results] == [mode.result_name(BY_NAME[load]) for load in MODE_LOADS]
    for result in record.results:
        assert result.failure == ""
        assert result.refused == 0
        assert result.rounds[0].messages > 0
    assert list(tmp_path.glob("*/*")) == [], "every store is removed"

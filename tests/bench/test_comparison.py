"""What bench-quick compares: ratios to Apache's broker, and a third worse than the table is too much."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.suite.comparison import Compared, compare, ratios, read_expected, write_expected
from bench.suite.loads import BY_NAME
from bench.suite.quick import report
from bench.suite.record import OURS, Result, RunRecord

from tests.bench.sample_record import sample_record, sample_round


def test_ratios_are_ours_to_apaches():
    found = ratios(sample_record())
    assert found["sync-16"] == {"rate": 10.0, "CPU": pytest.approx(0.1)}
    assert found["sync-1"] == {"p50": pytest.approx(0.1)}


def test_a_load_without_apaches_figure_has_no_ratio():
    assert ratios(RunRecord(results=[Result("sync-16", OURS, [sample_round(1.0)])])) == {}


@pytest.mark.parametrize(
    ("figure", "ratio", "is_worse"),
    [
        ("rate", 2.0, False),
        ("rate", 1.51, False),
        ("rate", 1.49, True),
        ("CPU", 2.6, False),
        ("CPU", 2.7, True),
        ("p50", 2.7, True),
    ],
)
def test_a_third_worse_is_too_much(figure: str, ratio: float, is_worse: bool):
    assert Compared("sync-1", figure, ratio, 2.0).is_worse is is_worse


def test_a_ratio_that_the_table_does_not_have_is_shown_and_not_judged():
    (compared,) = compare({"sync-16": {"rate": 0.01}}, {})
    assert not compared.is_worse
    assert "not in the table" in compared.line


def test_the_table_comes_back_from_its_file(tmp_path: Path):
    path = tmp_path / "expected.json"
    assert read_expected(path) == {}
    write_expected({"sync-16": {"rate": 2.123456}}, path)
    assert read_expected(path) == {"sync-16": {"rate": 2.1235}}


def test_the_table_of_the_repository_has_every_quick_load():
    expected = read_expected()
    assert set(expected) == {name for name, load in BY_NAME.items() if load.in_quick}
    for name, of_load in expected.items():
        assert set(of_load) == ({"p50"} if BY_NAME[name].is_calm else {"rate", "CPU"})


def test_the_exit_code_tells_whether_a_ratio_is_worse(capsys: pytest.CaptureFixture[str]):
    good, bad = Compared("sync-16", "rate", 2.0, 2.0), Compared("sync-16", "CPU", 1.0, 0.5)
    assert report([good], RunRecord()) == 0
    assert report([good, bad], RunRecord()) == 1
    assert "1 of 2 ratios are more than a third worse" in capsys.readouterr().out


def test_a_load_that_failed_fails_the_comparison(capsys: pytest.CaptureFixture[str]):
    assert report([], RunRecord(results=[Result("sync-16", OURS, [], "the broker closed connection 0")])) == 1
    assert "failed: sync-16 on skyrocket: the broker closed connection 0" in capsys.readouterr().out

"""The tables of docs/benchmarks.md, from a record and without measuring."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.suite import figures
from bench.suite.bars import BARS, Bar, judge
from bench.suite.document import DOCUMENT, render, write_document
from bench.suite.loads import BY_NAME, LOADS
from bench.suite.record import APACHE, KAFKA, OURS, Result, Row, RunRecord, read_record, write_record
from bench.suite.tables import bars_table, growth_table, lifecycle_table, loads_table, machine_text, programs_table

from tests.bench.sample_record import sample_record, sample_round


def row_of(table: str, *beginning: str) -> list[str]:
    """The cells of the row that begins with these cells."""
    rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines() if line.startswith("|")]
    found = [row for row in rows if row[: len(beginning)] == list(beginning)]
    assert found, f"no row begins with {beginning}:\n{table}"
    return found[0]


def test_the_best_round_counts_for_each_figure():
    result = Result("send-4x64", OURS, [sample_round(2.0), sample_round(1.0), sample_round(4.0)])
    assert result.rate == 100_000
    assert result.cpu_us == 5.0
    assert result.p50 == 50


def test_a_bar_stands_beside_its_ratio_and_says_whether_it_is_met():
    row = row_of(bars_table(sample_record()), "4 connections × 64 in flight", "rate")
    assert row[2:] == ["at least 4.00", "100,000/s", "10,000/s", "10.0", "met"]
    row = row_of(bars_table(sample_record()), "batches of 32, 4 × 8", "CPU a message, beside Kafka")
    assert row[2:] == ["at most 1", "5.00 µs", "25.0 µs", "0.20", "met"]


def test_a_missed_bar_says_by_how_much():
    record = sample_record()
    ours = record.find("sync-16", OURS)
    assert ours is not None
    ours.rounds = [sample_round(8.0)]
    assert row_of(bars_table(record), "16 sync clients", "rate")[-1] == "**missed**: 50% of the bar"
    assert row_of(bars_table(record), "16 sync clients", "CPU a message")[-1] == "**missed**: 3.2 times the bar"


def test_a_load_that_was_refused_misses_its_bar():
    record = sample_record()
    ours = record.find("batch-4x64", OURS)
    assert ours is not None
    ours.rounds = [sample_round(1.0, refused=20_000)]
    row = row_of(bars_table(record), "batches of 32, 4 × 64", "refused")
    assert row[2:4] == ["none", "20%"]
    assert row[-1] == "**missed**"
    assert row_of(loads_table(record, ["sends"]), "batches of 32, 4 × 64", OURS)[-1] == "20%"


def test_binary_headers_are_compared_with_our_own_json():
    judged = judge(sample_record(), Bar("binary-4x64", "CPU", 1.15, OURS, "send-4x64"))
    assert (judged.ratio, judged.is_met) == (1.0, True)


def test_a_figure_that_is_missing_is_not_measured_and_no_miss():
    record = sample_record()
    record.results = [each for each in record.results if each.server == OURS]
    table = bars_table(record)
    assert row_of(table, "16 sync clients", "rate")[-1] == "not measured"
    assert "**missed**" not in table


def test_every_bar_names_a_load_and_every_load_has_a_group_of_its_own_name():
    assert {bar.load for bar in BARS} <= set(BY_NAME)
    assert len(BY_NAME) == len(LOADS)


def test_a_load_that_failed_is_a_row_with_the_reason_in_one_line():
    record = sample_record()
    record.results = [Result("sync-1", APACHE, [], "the broker | closed\nconnection 0")]
    assert row_of(loads_table(record, ["sends"]), "one sync client", APACHE)[2] == "failed: the broker / closed connection 0"


def test_loads_of_a_group_show_rates_and_percentiles_of_each_server():
    table = loads_table(sample_record(), ["sends", "transactions"])
    assert row_of(table, "16 sync clients")[1:] == [OURS, "100,000", "5.00 µs", "50.0 µs", "400 µs", "3.00 ms", "0"]
    assert row_of(table, "", KAFKA)[2:4] == ["20,000", "25.0 µs"]
    assert row_of(table, "committed transactions, 4 × 16")[1] == OURS


def test_a_java_program_shows_its_share_of_the_cpu():
    assert row_of(programs_table(sample_record()), "`Producer`, 64 threads")[1:] == [
        OURS,
        "100,000",
        "5.00 µs",
        "5.00 µs",
        "50%",
        "0",
    ]


def test_lifecycles_show_starts_memory_and_recovery():
    table = lifecycle_table(sample_record())
    assert row_of(table, OURS)[1:] == ["0.50 s", "45 MB", "0.3%", "120 MB", "0.80 s, 300,000 messages"]
    assert row_of(table, KAFKA)[1:] == ["–", "–", "–", "800 MB", "–"]


def test_growth_has_the_rows_that_its_benchmark_printed():
    record = RunRecord(growth=[Row("sends, 10,000 queues", "5.50 µs", "1.10 of the first")])
    assert row_of(growth_table(record), "sends, 10,000 queues")[1:] == ["5.50 µs", "1.10 of the first"]


def test_the_machine_and_what_was_left_out_are_named():
    record = sample_record()
    record.left_out = ["Kafka was not measured: mvn is not installed"]
    text = machine_text(record)
    assert "2 cores of a processor" in text
    assert "with compiled twins" in text
    assert "took 11 min 40 s" in text
    assert text.endswith("\nKafka was not measured: mvn is not installed.\n")


def test_a_record_comes_back_from_its_file(tmp_path: Path):
    write_record(tmp_path / "record.json", sample_record())
    assert read_record(tmp_path / "record.json") == sample_record()
    assert read_record(tmp_path / "record.json").find("sync-16", APACHE) is not None


def test_only_the_text_between_the_markers_changes(tmp_path: Path):
    document = tmp_path / "benchmarks.md"
    document.write_text(DOCUMENT.read_text())
    write_document(sample_record(), document, tmp_path / "charts")
    first = document.read_text()
    write_document(sample_record(), document, tmp_path / "charts")
    assert document.read_text() == first
    assert "| 16 sync clients | rate | at least 2.50 | 100,000/s | 10,000/s | 10.0 | met |" in first
    by_hand = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("#")]
    assert [line for line in first.splitlines() if line.startswith("#")] == by_hand


def test_a_document_without_a_place_for_a_part_is_an_error():
    with pytest.raises(AssertionError, match=r"has places for \['bars'\]"):
        render(RunRecord(), "<!-- measured: bars -->\n<!-- end -->\n")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.12345, "0.123"), (4.0, "4.00"), (41.26, "41.3"), (135.4, "135"), (12_345, "12,300")]
)
def test_numbers_have_three_digits(value: float, text: str):
    assert figures.plain(value) == text


@pytest.mark.parametrize(("us", "text"), [(217.4, "217 µs"), (1_400, "1.40 ms"), (790_000, "790 ms"), (2_500_000, "2.50 s")])
def test_latencies_choose_their_unit(us: float, text: str):
    assert figures.latency(us) == text

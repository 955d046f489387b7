"""The suite itself: the generator's modes against our broker, a whole tiny run, and what happens when something is missing."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from bench.suite import full, generator, turns
from bench.suite.__main__ import main
from bench.suite.full import Plan, run_all
from bench.suite.generator import LoadError, generate
from bench.suite.java_programs import failures, read_report
from bench.suite.loads import BY_NAME, LOADS
from bench.suite.parts import measure_part
from bench.suite.processes import cpu_s, paused, resident_mb
from bench.suite.progress import Progress
from bench.suite.record import OURS
from bench.suite.servers import Server, count_messages, ours

from tests.support.tools import need

SMALL = {"mappedFileSizeCommitLog": 64 << 20, "maxHashSlotNum": 50_000, "maxIndexNum": 200_000}
SECONDS = 30.0  # at most: `requests` ends a load


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need(generator.COMPILER)
    with ours(tmp_path_factory.mktemp("ours"), SMALL) as running:
        yield running


def test_the_generator_compiles_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    need(generator.COMPILER)
    monkeypatch.setattr(generator, "CACHE", tmp_path)
    monkeypatch.setattr(generator, "FLAGS", [*generator.FLAGS, "-Wall", "-Wextra", "-Werror"])
    built = generator.generator()
    assert built.exists()
    changed = built.stat().st_mtime_ns
    assert generator.generator().stat().st_mtime_ns == changed  # it is compiled once


@pytest.mark.parametrize(
    "options", [{}, {"binary": 1}, {"code": 10}, {"code": 10, "binary": 1}, {"connections": 16, "window": 1}], ids=str
)
def test_sends_are_answered_and_stored(server: Server, options: dict[str, object]):
    topic = f"Sends{abs(hash(str(options))) % 10_000}"
    made = generate("send", server.port, topic, SECONDS, {"requests": 400, **options})
    assert (made.requests, made.messages, made.refused, made.codes) == (400, 400, 0, {})
    assert 0 < made.p50_us <= made.p99_us <= made.p999_us
    assert count_messages(server, topic) == 400


@pytest.mark.parametrize("binary", [0, 1])
def test_batches_count_each_message(server: Server, binary: int):
    topic = f"Batches{binary}"
    made = generate("batch", server.port, topic, SECONDS, {"requests": 20, "per-request": 32, "binary": binary})
    assert (made.requests, made.messages, made.refused) == (20, 640, 0)
    assert count_messages(server, topic) == 640


@pytest.mark.parametrize("binary", [0, 1])
def test_ordinary_consumers_read_every_message_of_their_span_again_and_again(server: Server, binary: int):
    topic = f"Pulls{binary}"
    generate("send", server.port, topic, SECONDS, {"requests": 800})
    pulls = {"connections": 2, "requests": 40, "span": 128, "per-request": 32, "binary": binary}
    made = generate("pull", server.port, topic, SECONDS, pulls)
    assert (made.requests, made.messages, made.refused) == (40, 40 * 32, 0)


def test_a_consumer_of_a_queue_with_too_few_messages_says_so(server: Server):
    generate("send", server.port, "Few", SECONDS, {"requests": 8})
    with pytest.raises(LoadError, match="queue 0 has 2 messages, fewer than --span 128"):
        generate("pull", server.port, "Few", SECONDS, {"span": 128})


def test_deliveries_are_timed_from_the_send(server: Server):
    generate("send", server.port, "Deliveries", SECONDS, {"requests": 4})
    made = generate("delivery", server.port, "Deliveries", 1.0, {"connections": 3, "pace": 100, "requests": 40})
    assert made.messages == 80  # two consumers
    assert 0 < made.p50_us < 1_000_000


@pytest.mark.parametrize("binary", [0, 1])
def test_transactions_are_committed(server: Server, binary: int):
    load = BY_NAME["transaction"]
    round_of = turns.run_round(load._replace(options={"requests": 50, "binary": binary}), server, SECONDS, Path())
    assert round_of.messages == 50


def test_refusals_are_counted_by_their_code(server: Server):
    made = generate("send", server.port, "not*a*topic", SECONDS, {"requests": 10})
    assert (made.requests, made.messages, made.refused) == (10, 0, 10)
    assert list(made.codes.values()) == [10]


def test_a_round_in_which_everything_was_refused_is_a_failure(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bench.suite.loads.TOPIC", "not*a*topic")
    (result,) = turns.measure_in_turns(BY_NAME["sync-1"], [server], 1, 0.2, tmp_path, lambda _text, _planned_s: None)
    assert "requests were refused: {" in result.failure


def test_a_wrong_option_is_named(server: Server):
    with pytest.raises(LoadError, match="unknown option: --colour"):
        generate("send", server.port, "Any", SECONDS, {"colour": "red"})


def test_a_server_that_is_not_there_is_a_failure_of_that_load(server: Server, tmp_path: Path):
    gone = server._replace(port=1)
    told: list[str] = []
    (result,) = turns.measure_in_turns(BY_NAME["sync-1"], [gone], 2, 0.1, tmp_path, lambda text, _: told.append(text))
    assert "Connection refused" in result.failure
    assert len(told) == 1  # no second round


def test_a_tiny_run_measures_our_broker_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    need(generator.COMPILER)
    monkeypatch.setenv("SKYROCKET_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(full, "WARM_UP", {"send-4x64": 0.2})
    monkeypatch.setattr(full, "FREE_GB_MIN", 0.5)
    record = run_all(Plan([BY_NAME["sync-16"]], [OURS], rounds=2, seconds=0.2), with_lifecycle=False, with_growth=False)
    result = record.find("sync-16", OURS)
    assert result is not None
    assert len(result.rounds) == 2
    assert result.rate > 0
    assert result.cpu_us > 0
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_ended_ends_its_servers_and_removes_its_folder(tmp_path: Path):
    need(generator.COMPILER)
    command = [sys.executable, "-m", "bench.suite", "full", "--servers", OURS, "--only", "sync-1", "--seconds", "600"]
    environment = {**os.environ, "SKYROCKET_BENCH_DIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    if shutil.disk_usage(tmp_path).free / 1e9 < full.FREE_GB_MIN:
        pytest.skip("the disk is too full for a run")
    with subprocess.Popen(command, cwd=generator.ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert b"skyrocket is ready" in run.stdout.readline()
        assert len(list(tmp_path.iterdir())) == 1
        run.terminate()
        assert run.wait(120) == 130, run.stderr.read()
        assert b"every server has been ended" in run.stderr.read()
    assert list(tmp_path.iterdir()) == []
    assert _processes_with(str(tmp_path)) == []


def _processes_with(text: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if text in (words := (folder / "cmdline").read_text()):
                found.append(words)
    return found


def test_a_full_disk_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    need(generator.COMPILER)
    monkeypatch.setattr(full, "FREE_GB_MIN", 1e9)
    assert main(["full", "--servers", OURS, "--rounds", "1"]) == 2
    assert "Choose a disk with SKYROCKET_BENCH_DIR=DIR" in capsys.readouterr().err


def test_a_missing_compiler_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(generator, "COMPILER", "gcc-that-is-missing")
    monkeypatch.setattr(generator, "CACHE", Path("/nowhere"))
    assert main(["full", "--servers", OURS]) == 2
    assert capsys.readouterr().err.startswith("gcc-that-is-missing is not installed")


def test_a_paused_process_takes_no_cpu_time_and_goes_on_afterwards():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            with paused([busy.pid]):
                while Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                    time.sleep(0.01)
                before_s = cpu_s(busy.pid)
                time.sleep(0.2)
                assert cpu_s(busy.pid) == before_s
            deadline_s = time.monotonic() + 60
            while cpu_s(busy.pid) <= before_s:
                assert time.monotonic() < deadline_s
            assert resident_mb(busy.pid) > 1
        finally:
            busy.kill()


def test_pausing_a_process_that_has_ended_is_no_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    with paused([ended.pid]):
        pass


@pytest.mark.parametrize(
    ("how", "seconds_max", "failure"),
    [
        ("ends", 120.0, ""),
        ("fails", 120.0, "failed: AssertionError: the broker closed a connection"),
        ("hangs", 3.0, "was ended after 3 s"),
    ],
)
def test_a_part_gives_its_rows_and_a_reason(
    how: str, seconds_max: float, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SAMPLE_PART", how)
    monkeypatch.setenv("SKYROCKET_BENCH_DIR", str(tmp_path))
    rows, reason = measure_part("tests.bench.sample_part", seconds_max)
    assert reason.endswith(failure)
    assert bool(reason) is bool(failure)
    assert list(tmp_path.iterdir()) == []
    if how != "hangs":  # a busy machine may not come that far in three seconds
        assert [(row.name, row.value) for row in rows] == [("one queue", "5.00 µs"), ("10,000 queues", "5.50 µs")]


def test_progress_tells_the_time_that_is_left():
    now_s, out = [0.0], io.StringIO()
    progress = Progress(200.0, lambda: now_s[0], out)
    now_s[0] = 150.0
    progress("half of it", 100.0)
    assert out.getvalue() == "[2:30 gone, 2:30 left] half of it\n"  # it takes half as long again as planned


def test_reports_of_a_java_program_are_read():
    line = "Current Time: 2026-01-02 03:04:05,678 | Send TPS: 6400 | Average RT(ms):   2.5 | Send Failed: 1 | Response Failed: 2"
    report = read_report(line)
    assert report["Send TPS"] == 6400
    assert report["Average RT(ms)"] == 2.5
    assert failures([report]) == 3
    assert failures([]) == 0


def test_a_plan_leaves_out_servers_whose_tools_are_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", os.devnull)
    plan = Plan(LOADS, ["skyrocket", "Apache", "Kafka"])
    assert plan.names == ["skyrocket"]
    assert plan.left_out[0] == "Apache was not measured: java, javac, mvn is not installed"
    assert all(load.source != "java" for load in plan.usual())

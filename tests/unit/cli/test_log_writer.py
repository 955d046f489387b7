"""Log lines are written in a thread: nobody waits for them, none is lost at the end, and their number is bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

from skyrocket import __version__
from skyrocket.cli.log_writer import JsonFormatter, LogWriter
from tests.support.ports import free_port
from tests.support.processes.loop_pauses import measured_pauses
from tests.support.processes.skyrocket_process import SkyrocketProcess, cluster_info
from tests.support.waiting import WAIT_S_MAX, wait_until


class HeldStream:
    """A stream that takes nothing until it may."""

    def __init__(self) -> None:
        self.text = ""
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()

    def write(self, text: str) -> None:
        self.is_asked.set()
        assert self.may_go_on.wait(WAIT_S_MAX)
        self.text += text

    def flush(self) -> None:
        """Nothing is buffered."""


def a_logger(writer: LogWriter) -> logging.Logger:
    logger = logging.Logger("test")
    logger.addHandler(writer)
    return logger


async def test_the_loop_does_not_wait_for_a_stream_that_is_slow():
    class SlowStream(HeldStream):
        def write(self, text: str) -> None:
            time.sleep(0.2)
            self.text += text

    stream = SlowStream()
    writer = LogWriter(stream)
    await asyncio.sleep(0)
    async with measured_pauses() as pauses:
        for number in range(3):
            a_logger(writer).warning("line %d", number)
            await asyncio.sleep(0)
    pauses.check()
    writer.close()
    assert stream.text.splitlines() == ["line 0", "line 1", "line 2"]


def test_lines_beyond_the_bound_are_left_out_and_the_next_one_says_how_many():
    stream = HeldStream()
    writer = LogWriter(stream, lines_max=2)
    logger = a_logger(writer)
    logger.warning("first")
    assert stream.is_asked.wait(WAIT_S_MAX)  # it is being written, and the others wait
    for number in range(5):
        logger.warning("line %d", number)
    stream.may_go_on.set()
    wait_until(lambda: "line 1" in stream.text, "the lines that wait are written")
    logger.warning("last")
    writer.close()
    left_out = "3 log lines were left out: they came faster than they could be written."
    assert stream.text.splitlines() == ["first", "line 0", "line 1", left_out, "last"]


def test_a_stream_that_fails_does_not_stop_the_writer():
    class FullStream(HeldStream):
        is_full = True

        def write(self, text: str) -> None:
            if self.is_full:
                self.is_asked.set()
                raise OSError(28, "No space left on device")
            self.text += text

    stream = FullStream()
    writer = LogWriter(stream)
    a_logger(writer).warning("lost")
    assert stream.is_asked.wait(WAIT_S_MAX)
    wait_until(lambda: writer._left_out == 1, "the line counts as left out")
    stream.is_full = False
    a_logger(writer).warning("written")
    writer.close()
    assert stream.text.splitlines()[-1] == "written"
    assert stream.text.startswith("1 log lines were left out")


def test_a_line_that_cannot_be_made_stops_neither_the_caller_nor_the_others(capsys):
    stream = HeldStream()
    stream.may_go_on.set()
    writer = LogWriter(stream)
    a_logger(writer).warning("%d", "no number")
    a_logger(writer).warning("written")
    writer.close()
    assert stream.text.splitlines() == ["written"]
    assert "no number" in capsys.readouterr().err


PROGRAM = """
import logging, sys
from skyrocket.cli.log_writer import LogWriter
logging.basicConfig(format="%(message)s", handlers=[LogWriter(sys.stderr)])
for number in range(2_000):
    logging.warning("line %d", number)
raise SystemError("it crashed")
"""


def test_a_process_that_ends_with_an_exception_has_written_all_of_its_lines():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    lines = [line for line in ended.stderr.splitlines() if line.startswith("line ")]
    assert lines == [f"line {number}" for number in range(2_000)]
    assert "it crashed" in ended.stderr


def test_json_lines_are_documents_also_with_an_exception():
    formatter = JsonFormatter()
    try:
        raise ValueError('a "quoted"\nline')
    except ValueError:
        record = logging.LogRecord("skyrocket.x", logging.ERROR, __file__, 1, "It broke: %s", ("why\n",), sys.exc_info())
    line = formatter.format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("ERROR", "skyrocket.x", "It broke: why\n")
    assert 'ValueError: a "quoted"' in found["exception"]
    assert found["time"].endswith("Z")


def test_server_logs_json_to_a_file_from_its_level_on_and_tells_start_and_stop(tmp_path: Path):
    log, names = tmp_path / "logs" / "names.log", free_port()
    arguments = ["namesrv", "--port", str(names), "--log-file", str(log), "--log-format", "json", "--log-level", "INFO"]
    with SkyrocketProcess("namesrv", tmp_path, arguments, lambda: cluster_info(f"127.0.0.1:{names}") is not None) as process:
        process.stop()
    messages = [json.loads(line)["message"] for line in log.read_text().splitlines()]
    assert messages[0].startswith(f"skyrocket {__version__} starts the nameserver, as process ")
    assert f"The nameserver listens on 127.0.0.1:{names}." in messages
    assert messages[-2:] == ["Stopping: SIGTERM.", "Stopped."]


def test_server_below_its_level_says_nothing(tmp_path: Path):
    log, names = tmp_path / "names.log", free_port()
    arguments = ["namesrv", "--port", str(names), "--log-file", str(log), "--log-level", "ERROR"]
    with SkyrocketProcess("namesrv", tmp_path, arguments, lambda: cluster_info(f"127.0.0.1:{names}") is not None) as process:
        process.stop()
    assert log.read_text() == ""


def test_log_file_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "skyrocket", "namesrv", "--log-file", str(tmp_path / "file" / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S_MAX, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(f"The log file {tmp_path}/file/log cannot be written: ")

"""`skyrocket run` as a process: it starts, serves requests, and stops on a signal."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.requests import RequestCode


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "skyrocket", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if "is ready" in line:
            return line
    raise AssertionError(f"the process exited with {process.wait(10)}")


def ask(port: int, code: int, body: bytes = b"") -> Command:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(encode_command(Command(code, body=body)))
        decoder = CommandDecoder()
        while True:
            for command in decoder.feed(connection.recv(65536)):
                return command


def run_arguments(path: Path, *more: str) -> list[str]:
    small = ["--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=1000"]
    return ["run", "--data", str(path), "--namesrv-port", "0", "--port", "0", *small, *more]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_prints_its_addresses_serves_and_stops_cleanly(tmp_path: Path, number: signal.Signals):
    with started(*run_arguments(tmp_path)) as process:
        names, broker = map(int, re.findall(r"127\.0\.0\.1:(\d+)", ready_line(process)))
        assert b"broker-a" in ask(names, RequestCode.GET_BROKER_CLUSTER_INFO).body
        assert ask(broker, RequestCode.GET_BROKER_RUNTIME_INFO).code == 0
        assert (tmp_path / "store" / "abort").exists()
        process.send_signal(number)
        assert process.wait(20) == 0
    assert not (tmp_path / "store" / "abort").exists()


def test_run_restarts_after_a_kill(tmp_path: Path):
    with started(*run_arguments(tmp_path)) as process:
        ready_line(process)
        process.kill()
        process.wait(10)
    with started(*run_arguments(tmp_path)) as process:
        assert "is ready" in ready_line(process)


def test_a_setting_changed_at_run_time_survives_a_kill(tmp_path: Path):
    with started(*run_arguments(tmp_path)) as process:
        _, broker = map(int, re.findall(r"127\.0\.0\.1:(\d+)", ready_line(process))[:2])
        changed = ask(broker, RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=9\ntraceOn=false\n")
        assert changed.code == 0, changed.remark
        process.kill()
        process.wait(10)
    with started(*run_arguments(tmp_path, "--set", "traceOn=true")) as process:
        _, broker = map(int, re.findall(r"127\.0\.0\.1:(\d+)", ready_line(process))[:2])
        shown = decode_config(ask(broker, RequestCode.GET_BROKER_CONFIG).body)
        assert (shown["fileReservedTime"], shown["traceOn"]) == ("9", "true"), "--set overrides the saved setting"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "--set", "nonsense=1"], "'nonsense' is not a setting of the broker."),
        (["run", "--set", "nonsense"], "--set 'nonsense' is not key=value."),
        (["broker", "--set", "listenPort=high"], "listenPort must be a whole number from 0 to 65535"),
        (["broker", "-c", "no-such-file.conf"], "There is no settings file no-such-file.conf."),
        (["namesrv", "-c", "no-such-file.conf"], "no-such-file.conf"),
    ],
)
def test_a_failed_start_prints_one_sentence(tmp_path: Path, arguments: list[str], sentence: str):
    done = subprocess.run(
        [sys.executable, "-m", "skyrocket", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_reported(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(*run_arguments(tmp_path, "--set", f"listenPort={port}")) as process:
            output, _ = process.communicate(timeout=30)
    assert f"Cannot listen on 127.0.0.1:{port}" in output
    assert "Traceback" not in output
    assert process.returncode == 2

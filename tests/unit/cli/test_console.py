"""`skyrocket console` as a process, and the console beside `skyrocket run`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.console.security.users import parse_users
from skyrocket.testing.threaded import SyncBroker
from tests.support.ports import free_port
from tests.support.waiting import wait_until

SMALL = ["--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=1000"]


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "skyrocket", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError(f"no line has {text!r}: {lines}")


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_console_says_where_it_is_and_stops_with_a_signal(skyrocket_broker: SyncBroker, number: signal.Signals):
    with started("console", "-n", skyrocket_broker.nameserver, "--port", "0") as process:
        url = re.search(r"is at (http://127\.0\.0\.1:\d+/)", line_with(process, "is at"))
        assert url is not None
        assert "1 of 1 answer" in httpx.get(url[1], timeout=60).text
        process.send_signal(number)
        assert process.wait(60) == 0


def test_a_console_for_several_clusters(skyrocket_broker: SyncBroker, tmp_path: Path):
    profiles = tmp_path / "config.toml"
    profiles.write_text(
        f'[clusters.stage]\nnamesrv = "{skyrocket_broker.nameserver}"\n[clusters.prod]\nnamesrv = "127.0.0.1:1"\n'
    )
    environment = {"SKYROCKET_CONFIG": str(profiles)}
    with started("console", "--cluster", "stage", "--cluster", "prod", "--port", "0", **environment) as process:
        url = re.search(r"The console of stage, prod is at (http://127\.0\.0\.1:\d+/)", line_with(process, "is at"))
        assert url is not None
        assert "1 of 1 answer" in httpx.get(f"{url[1]}c/stage/", timeout=60).text
        assert "No nameserver answers" in httpx.get(f"{url[1]}c/prod/", timeout=60).text
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", "0.0.0.0"], "Give the people who may with --users FILE"),
        (["--users", "no-such-file"], "The file of users no-such-file cannot be read"),
        (["--tls-cert", "cert.pem"], "Give --tls-cert and --tls-key together"),
        (["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "The certificate cert.pem cannot be used with the key key.pem"),
        (["--tls-client-ca", "ca.pem"], "--tls-client-ca needs a certificate of the console"),
    ],
)
def test_a_wrong_option_is_one_sentence(arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["console", "--port", "0", *arguments])
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert "Traceback" not in done.output


def test_a_taken_port_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, ["console", "--port", str(port)])
    assert done.exit_code == 2
    assert f"The console cannot listen on 127.0.0.1:{port}" in done.stderr


def test_a_line_for_the_file_of_users_is_printed():
    done = CliRunner().invoke(app, ["console", "--hash-password"], input="ann\noperator\ncorrect horse\ncorrect horse\n")
    assert done.exit_code == 0, done.output
    assert parse_users(done.stdout.splitlines()[-1], "it")["ann"].role.name == "OPERATOR"
    assert "correct" not in done.stdout
    short = CliRunner().invoke(app, ["console", "--hash-password"], input="ann\nviewer\nshort\nshort\n")
    assert short.exit_code == 2
    assert "8 to 256" in short.stderr


def test_run_has_a_console_that_ends_with_it(tmp_path: Path):
    port = free_port()
    flags = ["--namesrv-port", "0", "--port", "0", "--console", "--console-port", str(port)]
    with started("run", "--data", str(tmp_path), *flags, *SMALL) as process:
        line_with(process, "is ready")
        assert f"http://127.0.0.1:{port}/" in line_with(process, "The console of")
        wait_until(lambda: "1 of 1 answer" in httpx.get(f"http://127.0.0.1:{port}/", timeout=60).text, "the overview")
        process.kill()
        process.wait(30)
        wait_until(lambda: not is_listening(port), "the console ends with the broker that was killed")


ROOT = {"username": "root-user", "password": "root-secret"}
GUARDED = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": json.dumps(ROOT)}
GUARDED["innerClientAuthenticationCredentials"] = json.dumps({"accessKey": "inner", "secretKey": "inner-secret"})


def guarded_run(data: Path, *more: str) -> list[str]:
    """`skyrocket run` with access control."""
    sets = [part for key, value in GUARDED.items() for part in ("--set", f"{key}={value}")]
    return ["run", "--data", str(data), "--namesrv-port", "0", "--port", "0", "--console", *more, *sets, *SMALL]


def test_run_with_access_control_says_which_command_starts_a_console(tmp_path: Path):
    port = free_port()
    with started(*guarded_run(tmp_path, "--console-port", str(port))) as process:
        nameserver = re.search(r"nameserver (\S+),", line_with(process, "is ready"))
        assert nameserver is not None
        told = line_with(process, "There is no console")
        assert "ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY" in told
        assert f"skyrocket console -n '{nameserver[1]}'" in told
        assert not is_listening(port)


def test_run_with_access_control_and_credentials_has_a_console_that_reads_the_cluster(tmp_path: Path):
    port = free_port()
    keys = {"ROCKETMQ_ACCESS_KEY": ROOT["username"], "ROCKETMQ_SECRET_KEY": ROOT["password"]}
    with started(*guarded_run(tmp_path, "--console-port", str(port)), **keys) as process:
        line_with(process, "The console of")
        overview = httpx.get(f"http://127.0.0.1:{port}/", timeout=60).text
        access = httpx.get(f"http://127.0.0.1:{port}/access", timeout=60).text
    assert "1 of 1 answer" in overview
    assert "authentication is on, authorization is on" in access
    assert "root-user" in access


def test_the_console_logs_as_it_is_told(skyrocket_broker: SyncBroker, tmp_path: Path):
    file = tmp_path / "console.log"
    flags = ["--port", "0", "--log-format", "json", "--log-level", "info", "--log-file", str(file)]
    with started("console", "-n", skyrocket_broker.nameserver, *flags) as process:
        url = re.search(r"is at (\S+)", line_with(process, "is at"))
        assert url is not None
        with httpx.Client(base_url=url[1], timeout=60) as visitor:
            token = re.search(r'name="token" value="(\w+)"', visitor.get("/new-group").text)
            assert token is not None
            visitor.post("/groups", data={"token": token[1], "group": "logged"})
        process.terminate()
        assert process.wait(60) == 0
    (line,) = [line for line in map(json.loads, file.read_text().splitlines()) if "logged" in line["message"]]
    assert (line["level"], line["logger"]) == ("INFO", "skyrocket.console.application")
    assert "group logged created" in line["message"]


def test_the_console_beside_run_logs_as_run_does(tmp_path: Path):
    file = tmp_path / "run.log"
    flags = ["--namesrv-port", "0", "--port", "0", "--console", "--console-port", "0", "--log-format", "json"]
    with started("run", "--data", str(tmp_path / "data"), *flags, "--log-file", str(file), *SMALL) as process:
        url = re.search(r"is at (\S+)", line_with(process, "The console of"))
        assert url is not None
        with httpx.Client(base_url=url[1], timeout=60) as visitor:
            token = re.search(r'name="token" value="(\w+)"', visitor.get("/new-topic").text)
            assert token is not None
            visitor.post("/topics", data={"token": token[1], "topic": "logged", "read_queues": "1", "write_queues": "1"})
        process.terminate()
        assert process.wait(60) == 0
    lines = [json.loads(line) for line in (tmp_path / "run-console.log").read_text().splitlines()]
    assert [line["logger"] for line in lines if "topic logged" in line["message"]] == ["skyrocket.console.application"]
    assert file.exists(), "run has its own file"


def test_run_goes_on_when_the_console_cannot_start(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = ["--namesrv-port", "0", "--port", "0", "--console", "--console-port", str(port)]
        with started("run", "--data", str(tmp_path), *flags, *SMALL) as process:
            ready = line_with(process, "is ready")
            assert f"The console cannot listen on 127.0.0.1:{port}" in line_with(process, "The console cannot")
            broker = int(re.findall(r"127\.0\.0\.1:(\d+)", ready)[1])
            assert is_listening(broker)
            process.terminate()
            assert process.wait(60) == 0

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from skyrocket.cli.namesrv import namesrv
from tests.support.waiting import WAIT_S_MAX

START = "import typer; from skyrocket.cli.namesrv import namesrv; typer.run(namesrv)"

app = typer.Typer()
app.command()(namesrv)


def test_namesrv_starts_quickly_prints_its_address_and_stops_on_a_signal(tmp_path: Path):
    settings = tmp_path / "namesrv.conf"
    settings.write_text(f"kvConfigPath={tmp_path}/kv.json\nlistenPort=1\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", START, "-c", str(settings), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("The nameserver is ready on 127.0.0.1:"), line
            socket.create_connection(("127.0.0.1", int(line.rsplit(":", 1)[1].rstrip(".\n"))), timeout=WAIT_S_MAX).close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S_MAX) == 0
        finally:
            process.kill()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 5, "well under a second of CPU time, on a machine that has nothing else to do"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listenPort=x\nserverWorkerThreadz=8\n", "'serverWorkerThreadz' is not a setting"),
        ("listenPort=x\n", "listenPort must be a whole number from 0 to 65535, not 'x'."),
        ("kvConfigPath=/proc/self/mem/kv.json\n", "/proc/self/mem/kv.json cannot be read: Not a directory."),
    ],
)
def test_invalid_settings_are_reported_in_one_sentence(tmp_path: Path, text: str, said: str):
    path = tmp_path / "namesrv.conf"
    path.write_text(text)
    done = CliRunner().invoke(app, ["-c", str(path)])
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_port_in_use_is_reported_in_one_sentence(tmp_path: Path):
    (tmp_path / "namesrv.conf").write_text(f"kvConfigPath={tmp_path}/kv.json\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        arguments = ["-c", str(tmp_path / "namesrv.conf"), "--host", "127.0.0.1", "--port", str(taken.getsockname()[1])]
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "Cannot listen on" in done.output

"""What an administrator changes at a nameserver is in its data directory, and in force after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.headers import GetKVConfigRequestHeader, PutKVConfigRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.support.apache.cluster import send_request
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import Skyrocket, SkyrocketNameserver, SkyrocketProcess, answers


def ask(address: str, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
    host, port = address.split(":")
    answer = send_request((host, int(port)), Command(code, opaque=1, fields=fields, body=body))
    assert answer is not None
    return answer


def change(address: str) -> None:
    answer = ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=b"waitSecondsForService=7\nenableTopicList=false\n")
    assert answer.code == 0, answer.remark
    pair = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")
    assert ask(address, RequestCode.PUT_KV_CONFIG, pair.to_fields()).code == 0


def assert_changed(address: str) -> None:
    shown = decode_config(ask(address, RequestCode.GET_NAMESRV_CONFIG).body)
    assert (shown["waitSecondsForService"], shown["enableTopicList"]) == ("7", "false")
    key = GetKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders")
    assert ask(address, RequestCode.GET_KV_CONFIG, key.to_fields()).fields == {"value": "broker-a:4"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def test_run_keeps_changes_of_its_nameserver_in_its_data_directory(tmp_path: Path, home: Path):
    with Skyrocket(tmp_path) as process:
        change(process.nameserver)
        process.kill()  # an acknowledged change is on disk
        process.start()
        assert_changed(process.nameserver)
        process.stop()
    assert sorted(path.name for path in (tmp_path / "data" / "namesrv").iterdir()) == ["kvConfig.json", "namesrv.properties"]
    assert list(home.iterdir()) == []


def test_namesrv_reads_changes_again_without_a_file(tmp_path: Path, home: Path):
    port = free_port()
    arguments = ["namesrv", "--port", str(port)]
    with SkyrocketProcess("namesrv", tmp_path, arguments, lambda: answers(port, RequestCode.GET_NAMESRV_CONFIG)) as process:
        change(f"127.0.0.1:{port}")
        process.stop()
        process.start()
        assert_changed(f"127.0.0.1:{port}")
    assert (home / "namesrv" / "namesrv.properties").read_text() == "waitSecondsForService=7\nenableTopicList=false\n"


def test_namesrv_keeps_changes_in_the_file_that_it_was_given(tmp_path: Path, home: Path):
    with SkyrocketNameserver(tmp_path) as process:
        change(process.nameserver)
        process.stop()
        process.start()
        assert_changed(process.nameserver)
    assert "waitSecondsForService=7" in (tmp_path / "namesrv.conf").read_text()
    assert list(home.iterdir()) == []

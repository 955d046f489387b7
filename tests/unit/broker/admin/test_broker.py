"""The broker's settings and runtime information, as administrators see and change them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocket.broker.admin.broker import BrokerHandlers
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import RefusedError
from skyrocket.protocol.bodies import KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import GetBrokerConfigResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.live import LiveSettings
from tests.support.brokers.broker_context import a_context
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import an_open_store, numbered
from tests.unit.broker.parts import Peer

NOW_MS = 1_700_000_000_000


class Looked:
    def __init__(self, folder: Path) -> None:
        self.now_ms = NOW_MS
        self.store = an_open_store(SimulatedDisk())
        self.settings = LiveSettings(BrokerSettings(store_path=str(folder)))
        self.counters = Counters(self.wall)
        self.handlers = BrokerHandlers(a_context(self.store, self.settings, self.wall, counters=self.counters))
        self.peer = Peer().connection

    def wall(self) -> int:
        return self.now_ms

    def runtime(self) -> dict[str, str]:
        answer = asyncio.run(self.handlers.runtime_info(Command(RequestCode.GET_BROKER_RUNTIME_INFO), self.peer))
        table = decode(answer.body, KVTable).table
        assert table is not None
        return {name: str(value) for name, value in table.items()}

    def update(self, text: str) -> Command:
        command = Command(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
        return asyncio.run(self.handlers.update_config(command, self.peer))

    def config(self) -> tuple[str, dict[str, str]]:
        """Return the version of the settings, and the settings."""
        answer = self.handlers.get_config(Command(RequestCode.GET_BROKER_CONFIG), self.peer)
        return answer.header(GetBrokerConfigResponseHeader).version or "", decode_config(answer.body)


@pytest.fixture
def looked(tmp_path: Path) -> Looked:
    return Looked(tmp_path)


def test_runtime_info_has_stored_messages_and_uptime(looked: Looked):
    looked.store.append(numbered(3), NOW_MS)
    looked.counters.put.add(3, 600)
    looked.now_ms += 90_061_000
    told = looked.runtime()
    assert told["putMessageTimesTotal"] == told["msgPutTotalTodayNow"] == "3"
    assert told["putMessageAverageSize"] == "200.0"
    assert told["runtime"] == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
    assert told["commitLogMaxOffset"] == str(looked.store.log.end)
    assert told["earliestMessageTimeStamp"] == str(NOW_MS)


@pytest.mark.parametrize("pool", ["send", "pull", "litePull", "ack", "query"])
def test_runtime_info_has_rows_that_tools_expect_for_thread_pools(looked: Looked, pool: str):
    told = looked.runtime()
    assert {told[f"{pool}ThreadPoolQueue{what}"] for what in ("Size", "Capacity", "HeadWaitTimeMills")} == {"0"}
    assert "timerReadBehind" in told


def test_unflushed_bytes_are_reported_in_binary_units(looked: Looked):
    assert looked.runtime()["remainHowManyDataToFlush"] == "0 B"
    looked.store.append(numbered(20, body_bytes=500), NOW_MS)
    behind = looked.store.horizon.appended - looked.store.horizon.flushed
    assert looked.runtime()["remainHowManyDataToFlush"] == f"{behind / 1024:.1f} KiB"


def test_changing_a_setting_gives_a_new_version(looked: Looked):
    before, _ = looked.config()
    assert looked.update("traceOn=false\nfileReservedTime=5\n").code == ResponseCode.SUCCESS
    version, shown = looked.config()
    assert (shown["traceOn"], shown["fileReservedTime"]) == ("false", "5")
    assert ('"counter":0' in before, '"counter":1' in version) == (True, True)


def test_changed_setting_is_saved_in_the_store_or_in_the_given_file(tmp_path: Path):
    Looked(tmp_path).update("traceOn=FALSE\ndeleteWhen=5\n")
    assert (tmp_path / "config" / "skyrocket.properties").read_text() == "traceOn=false\ndeleteWhen=05\n"
    given = tmp_path / "broker.conf"
    given.write_text("# ours\ntraceOn = true\n")
    looked = Looked(tmp_path)
    looked.settings.replace(BrokerSettings(config_path=str(given)))
    looked.update("traceOn=false")
    assert given.read_text() == "# ours\ntraceOn=false\n"


def test_change_that_cannot_be_saved_is_not_made(tmp_path: Path):
    (tmp_path / "config").write_text("a file where a folder should be")
    looked = Looked(tmp_path)
    with pytest.raises(RefusedError, match="could not be saved and was not applied"):
        looked.update("traceOn=false")
    assert looked.settings().trace_on


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("storePathRootDir=/tmp/x", ResponseCode.NO_PERMISSION),
        ("brokerConfigPath=/tmp/x", ResponseCode.NO_PERMISSION),
        ("namesrvAddr=10.0.0.1:9876", ResponseCode.NO_PERMISSION),
        ("noSuchSetting=1", ResponseCode.SYSTEM_ERROR),
        ("traceOn=perhaps", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_path_address_unknown_name_or_invalid_value_changes_nothing(looked: Looked, text: str, code: ResponseCode):
    before = looked.settings()
    with pytest.raises(RefusedError) as refused:
        looked.update(f"fileReservedTime=5\n{text}\n")
    assert refused.value.code == code
    assert text.partition("=")[0] in str(refused.value)
    assert looked.settings() == before

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from skyrocket.nameserver.settings import NameserverSettings, apply_saved_changes, read_settings
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.errors import FixedSettingError, SettingsError
from skyrocket.settings.kinds import HOST, PATH
from tests.support.waiting import wait_until
from tests.unit.nameserver.running import a_nameserver


def test_every_setting_reads_the_text_that_it_writes():
    settings = NameserverSettings()
    assert settings.with_texts(settings.to_texts()) == settings


def test_no_path_or_address_can_be_changed_remotely():
    assert [row.key for row in NameserverSettings.rows().values() if row.changeable and row.kind in (HOST, PATH)] == []
    assert not NameserverSettings.rows()["listenPort"].changeable


def test_a_file_of_settings_is_read_and_becomes_the_place_for_changes(tmp_path: Path):
    path = tmp_path / "namesrv.conf"
    path.write_text("# mine\nlistenPort = 1234 \nbindAddress:10.0.0.1\nenableTopicList=FALSE\nkvConfigPath=~/kv.json\n")
    settings = read_settings(path)
    assert (settings.listen_port, settings.bind_address, settings.enable_topic_list) == (1234, "10.0.0.1", False)
    assert settings.config_store_path == path
    assert settings.kv_config_path == Path.home() / "kv.json"


def test_every_unknown_key_and_wrong_value_is_named_in_one_sentence():
    texts = {"listenPort": "many", "serverWorkerThreads": "8", "enableTopicList": "yes", "listenPorts": "1", "kvConfigPath": ""}
    with pytest.raises(SettingsError) as refused:
        NameserverSettings().with_texts(texts)
    assert str(refused.value) == (
        "listenPort must be a whole number from 0 to 65535, not 'many'; "
        "serverWorkerThreads has no effect on the nameserver: connections are not served by netty; "
        "enableTopicList must be true or false, not 'yes'; "
        "'listenPorts' is not a setting of the nameserver (did you mean listenPort?); "
        "kvConfigPath must be a path, not ''."
    )


@pytest.mark.parametrize("text", ["-1", "65536", "1e3", "٣", "9" * 30, "0x10", ""])
def test_a_port_outside_its_range_is_refused(text: str):
    with pytest.raises(SettingsError, match="listenPort"):
        NameserverSettings().with_texts({"listenPort": text})


def test_keys_of_apaches_nameserver_are_accepted_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "namesrv.conf"
    path.write_text(
        "listenPort=1234\nserverWorkerThreads=8\nrocketmqHome=/opt\nclusterTest=false\nserverChannelMaxIdleTimeSeconds=7\n"
    )
    settings = read_settings(path)
    assert (settings.listen_port, settings.idle_s) == (1234, 7)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "These keys of Apache's have no effect on the nameserver"
    ]
    path.write_text("enableControllerInNamesrv=true\n")
    with pytest.raises(SettingsError, match="enableControllerInNamesrv=true is not possible"):
        read_settings(path)


def test_saved_changes_are_applied_unless_no_request_could_have_made_them(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "namesrv.properties"
    settings = NameserverSettings().with_texts({"configStorePath": str(path)})
    assert apply_saved_changes(settings) == settings
    path.write_text("enableTopicList=false\nlistenPort=1\nrocketmqHome=/opt\n")  # Apache's nameserver saves all its settings
    assert apply_saved_changes(settings) == settings.with_texts({"enableTopicList": "false"})
    assert [record.getMessage() for record in caplog.records] == [
        f"listenPort, rocketmqHome in {path} has no effect. Give it with -c FILE."
    ]
    path.write_text("enableTopicList=maybe\n")
    with pytest.raises(SettingsError, match="enableTopicList must be true or false"):
        apply_saved_changes(settings)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path):
    with pytest.raises(SettingsError, match="There is no settings file"):
        read_settings(tmp_path / "missing")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings(tmp_path)
    (tmp_path / "latin").write_bytes(b"bindAddress=\xff\n")
    with pytest.raises(SettingsError, match=r"latin: .*UTF-8"):
        read_settings(tmp_path / "latin")


@pytest.mark.parametrize(
    "key", ["bindAddress", "listenPort", "kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList"]
)
def test_a_request_may_not_change_where_the_nameserver_listens_or_writes(key: str):
    with pytest.raises(FixedSettingError, match=key):
        NameserverSettings().change_by_request({"enableTopicList": "false", key: "1"})


# --- over the wire


def test_settings_are_shown_in_the_order_of_their_keys(tmp_path: Path):
    with a_nameserver(tmp_path) as running:
        shown = decode_config(running.ask(RequestCode.GET_NAMESRV_CONFIG).body)
    assert list(shown) == sorted(shown)
    assert shown["kvConfigPath"] == str(tmp_path / "kvConfig.json")
    assert shown["orderMessageEnable"] == "false"


def test_a_change_takes_effect_at_once_and_is_saved(tmp_path: Path):
    (tmp_path / "namesrv.properties").write_text("# mine\n")
    with a_nameserver(tmp_path) as running:
        assert running.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).code == ResponseCode.SUCCESS
        answer = running.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false\nwaitSecondsForService=5\n")
        assert answer.code == ResponseCode.SUCCESS
        refused = running.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert (refused.code, "enableAllTopicList" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        assert running.ask(RequestCode.UPDATE_NAMESRV_CONFIG).code == ResponseCode.SUCCESS, "nothing to change is no error"
    assert (tmp_path / "namesrv.properties").read_text() == "# mine\nenableAllTopicList=false\nwaitSecondsForService=5\n"
    assert read_settings(tmp_path / "namesrv.properties").wait_s == 5


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"kvConfigPath=/etc/cron.d/x\n", ResponseCode.NO_PERMISSION),
        (b"configStorePath=/etc/cron.d/x\nproductEnvName=* * * * * root sh\n", ResponseCode.NO_PERMISSION),
        (b"config\\\nStorePath=/etc/cron.d/x", ResponseCode.NO_PERMISSION),
        (b"\\u0063onfigStorePath=/etc/cron.d/x", ResponseCode.NO_PERMISSION),
        (b"rocketmqHome=/tmp", ResponseCode.NO_PERMISSION),
        (b"bindAddress=0.0.0.0", ResponseCode.NO_PERMISSION),
        (b"enableTopicList=false\nproductEnvName=x", ResponseCode.SYSTEM_ERROR),
        (b"waitSecondsForService=-1", ResponseCode.SYSTEM_ERROR),
        (b"\xff\xfe", ResponseCode.SYSTEM_ERROR),
    ],
    ids=lambda value: str(value)[:40],
)
def test_hostile_changes_are_refused_with_a_sentence_and_change_nothing(tmp_path: Path, body: bytes, code: ResponseCode):
    with a_nameserver(tmp_path) as running:
        before = running.nameserver.settings()
        answer = running.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
        assert answer.code == code
        assert (answer.remark or "").endswith(".")
        assert running.nameserver.settings() == before
    assert not (tmp_path / "namesrv.properties").exists()


def test_a_change_that_cannot_be_saved_is_not_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with a_nameserver(tmp_path, config_store_path=tmp_path / "file" / "x") as running:
        answer = running.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert running.nameserver.settings().enable_topic_list


def test_every_setting_is_documented():
    text = (Path(__file__).resolve().parents[3] / "docs" / "nameserver.md").read_text()
    shown = {cells[1].strip("` "): cells[4].strip() for line in text.splitlines() if len(cells := line.split("|")) == 7}
    for key, row in NameserverSettings.rows().items():
        assert shown.get(key) == ("yes" if row.changeable else "no"), key


def test_log_level_changes_at_run_time(tmp_path: Path):
    package = logging.getLogger("skyrocket")
    before = package.level
    try:
        with a_nameserver(tmp_path, scan_interval_ms=10) as running:
            assert running.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"logLevel=DEBUG").code == ResponseCode.SUCCESS
            wait_until(lambda: package.level == logging.DEBUG, "the level")
            assert running.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"logLevel=LOUD").code == ResponseCode.SYSTEM_ERROR
    finally:
        package.setLevel(before)

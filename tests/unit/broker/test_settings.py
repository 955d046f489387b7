"""Settings have Apache's names, and an error names the invalid setting."""

from __future__ import annotations

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.settings.errors import FixedSettingError, SettingsError

SETTINGS = BrokerSettings()


def test_settings_are_read_under_apaches_names():
    changed = SETTINGS.with_texts({"brokerName": "b", "flushDiskType": "SYNC_FLUSH", "deleteWhen": "05", "traceOn": "false"})
    assert (changed.broker_name, changed.sync_flush, changed.delete_at_hour, changed.trace_on) == ("b", True, 5, False)
    assert changed.store_config().sync_flush


def test_printed_settings_can_be_read_again():
    changed = SETTINGS.with_texts({"brokerIP1": "10.0.0.1", "fileReservedTime": "24"})
    assert BrokerSettings().with_texts(changed.to_texts()) == changed
    assert list(changed.to_texts()) == sorted(name for name in BrokerSettings.rows() if not name.startswith("tls."))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("brokerNam", "x", "'brokerNam' is not a setting of the broker"),
        ("listenPort", "high", "listenPort must be a whole number from 0 to 65535, not 'high'"),
        ("listenPort", "70000", "must be a whole number from 0 to 65535"),
        ("autoCreateTopicEnable", "yes", "must be true or false, not 'yes'"),
        ("flushDiskType", "NEVER", "must be SYNC_FLUSH or ASYNC_FLUSH"),
        ("diskMaxUsedSpaceRatio", "99", "from 10 to 95"),
        ("messageDelayLevel", "1s soon", "is not a list of delays"),
    ],
)
def test_invalid_setting_is_rejected_by_name(name: str, value: str, sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        SETTINGS.with_texts({name: value})


def test_changes_apply_all_or_none():
    with pytest.raises(SettingsError):
        SETTINGS.with_texts({"brokerName": "b", "nonsense": "1"})


@pytest.mark.parametrize(
    "name",
    [
        "storePathRootDir",
        "storePathCommitLog",
        "namesrvAddr",
        "bindAddress",
        "brokerIP1",
        "listenPort",
        "brokerName",
        "mappedFileSizeCommitLog",
    ],
)
def test_no_path_address_or_identity_changes_remotely(name: str):
    with pytest.raises(FixedSettingError, match=f"{name} cannot be changed while the broker runs"):
        SETTINGS.change_by_request({name: "/tmp/x"})


def test_changeable_setting_changes_remotely():
    assert SETTINGS.change_by_request({"fileReservedTime": "48"}).reserved_hours == 48


PATHS = {"storePathCommitLog": "commitlog", "storePathConsumeQueue": "consumequeue", "storePathIndex": "index"}


def test_the_directories_of_apaches_classic_file_are_accepted():
    texts = {key: f"/data/store/{folder}" for key, folder in PATHS.items()}
    changed = SETTINGS.with_texts({**texts, "storePathRootDir": "/data/store/"})
    assert changed.commit_log_path == "/data/store/commitlog"


def test_the_commit_log_may_have_a_directory_of_its_own():
    changed = SETTINGS.with_texts({"storePathRootDir": "/data/store", "storePathCommitLog": "/fast/log"})
    assert changed.commit_log_path == "/fast/log"
    with pytest.raises(SettingsError, match="keeps the log in one directory"):
        SETTINGS.with_texts({"storePathCommitLog": "/fast/log,/slow/log"})


@pytest.mark.parametrize(("key", "folder"), [one for one in PATHS.items() if one[1] != "commitlog"])
def test_a_directory_that_the_store_does_not_use_is_refused(key: str, folder: str):
    with pytest.raises(SettingsError) as refused:
        SETTINGS.with_texts({"storePathRootDir": "/data/store", key: f"/other/{folder}"})
    assert str(refused.value) == (
        f"{key} is /other/{folder}, but this broker uses /data/store/{folder}. Remove {key}, or change storePathRootDir."
    )


def test_nameservers_and_addresses():
    settings = BrokerSettings(namesrv_addr="a:1; b:2;", host="::1", port=5)
    assert settings.nameservers == ["a:1", "b:2"]
    assert settings.address == "[::1]:5"
    assert BrokerSettings(advertised_host="10.0.0.9").address == "10.0.0.9:10911"

"""Names, ports and stores of the brokers of one machine, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.cli.local_cluster.plan import BROKERS_MAX, check_shared_settings, check_stores, metrics_texts, plan_brokers
from skyrocket.settings.errors import SettingsError


def test_each_broker_has_its_name_port_and_store(tmp_path: Path):
    assert plan_brokers(3, tmp_path, 10911, 9876) == [
        ("broker-a", 10911, tmp_path / "store"),
        ("broker-b", 10921, tmp_path / "store-b"),
        ("broker-c", 10931, tmp_path / "store-c"),
    ]
    assert [broker.port for broker in plan_brokers(2, tmp_path, 0, 0)] == [0, 0], "the system chooses"
    assert plan_brokers(1, tmp_path, 10911, 9876)[0].texts == [
        "brokerName=broker-a",
        "listenPort=10911",
        f"storePathRootDir={tmp_path}/store",
    ]


@pytest.mark.parametrize("count", [-1, 0, BROKERS_MAX + 1])
def test_count_has_bounds(tmp_path: Path, count: int):
    with pytest.raises(SettingsError, match=rf"^--brokers {count} is not between 1 and 26\. [^.]*\.$"):
        plan_brokers(count, tmp_path, 10911, 9876)


@pytest.mark.parametrize("namesrv_port", [10911, 10909, 10921, 10919])
def test_nameserver_has_a_port_that_no_broker_uses(tmp_path: Path, namesrv_port: int):
    with pytest.raises(
        SettingsError, match=rf"^--namesrv-port {namesrv_port} is a port of broker-[ab], which listens on 109\d1 and"
    ):
        plan_brokers(2, tmp_path, 10911, namesrv_port)


def test_port_of_the_last_broker_exists(tmp_path: Path):
    assert plan_brokers(2, tmp_path, 65_525, 9876)[-1].port == 65_535
    with pytest.raises(SettingsError, match=r"^--port 65526 leaves no port for broker-b: 65536 is above 65535"):
        plan_brokers(2, tmp_path, 65_526, 9876)


def test_cluster_may_grow_but_not_leave_a_store_behind(tmp_path: Path):
    for name in ("store", "store-b", "store-c"):
        (tmp_path / name).mkdir()
    assert len(plan_brokers(4, tmp_path, 10911, 9876)) == 4
    check_stores(3, tmp_path)
    with pytest.raises(SettingsError, match=r"stores of 3 brokers, and --brokers 1 would leave the messages in store-c unread"):
        check_stores(1, tmp_path)


@pytest.mark.parametrize("text", ["brokerName=x", "listenPort=1", "storePathRootDir=x", "brokerConfigPath=x", "namesrvAddr=x:1"])
def test_setting_that_each_broker_has_for_itself_is_refused(text: str):
    with pytest.raises(SettingsError, match=rf"^--set {text} "):
        check_shared_settings(2, ["flushDiskType=SYNC_FLUSH", text])
    check_shared_settings(2, ["flushDiskType=SYNC_FLUSH"])


def test_metrics_of_each_broker_have_a_port_of_their_own():
    ports = [metrics_texts(5557, number) for number in range(2)]
    assert ports == [["metricsPromExporterPort=5557"], ["metricsPromExporterPort=5567"]]
    assert metrics_texts(0, 1) == ["metricsPromExporterPort=0"], "the system chooses"

"""Every key that Apache's servers read from a configuration file is known here, and its default is accepted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.settings.table import Settings
from tests.support.apache.packages import run_java

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "java" / "ConfigKeys.java"
NETTY = ["org.apache.rocketmq.remoting.netty.NettyServerConfig", "org.apache.rocketmq.remoting.netty.NettyClientConfig"]
BROKER = [
    "org.apache.rocketmq.common.BrokerConfig",
    "org.apache.rocketmq.store.config.MessageStoreConfig",
    "org.apache.rocketmq.auth.config.AuthConfig",
    *NETTY,
]
NAMESERVER = ["org.apache.rocketmq.common.namesrv.NamesrvConfig", *NETTY]
NOT_IN_APACHE_5_5 = {  # keys of 4.9 and of classic example files
    *("abortFile", "storeCheckpoint", "checkTransactionMessageThreadPoolNums", "filterServerNums", "haSlaveFallbehindMax"),
    *("commercialBigCount", "commercialEnable", "commercialTimerCount", "commercialTransCount", "maxDelayTime"),
    *("mapedFileSizeCommitLog", "mapedFileSizeConsumeQueue", "mapedFileSizeConsumeQueueExt", "checkTransactionMessageEnable"),
}


@cache
def defaults_of(classes: tuple[str, ...]) -> dict[str, str]:
    lines = run_java(SOURCE, *classes).decode().splitlines()
    return {key: default for _, key, default in (line.split("\t") for line in lines)}


@pytest.mark.parametrize(("table", "classes"), [(BrokerSettings, BROKER), (NameserverSettings, NAMESERVER)])
def test_every_key_of_apache_is_a_setting_or_is_known_to_have_no_effect(table: type[Settings], classes: list[str]):
    apache = defaults_of(tuple(classes))
    assert len(apache) > 50
    assert sorted(apache.keys() - table.rows().keys() - table.FOREIGN.keys()) == []
    assert table.FOREIGN.keys() - apache.keys() <= NOT_IN_APACHE_5_5


@pytest.mark.parametrize(("table", "classes"), [(BrokerSettings, BROKER), (NameserverSettings, NAMESERVER)])
def test_apaches_defaults_are_accepted(table: type[Settings], classes: list[str]):
    defaults = {key: text for key, text in defaults_of(tuple(classes)).items() if key not in table.rows()}
    own, warning = table.separate_foreign(defaults)
    assert own == {}
    assert warning is not None

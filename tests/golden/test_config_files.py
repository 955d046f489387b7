"""Config files that Apache RocketMQ 5.5.0 wrote are decoded, and encoded again to the same bytes."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from skyrocket.store import config_files as c
from skyrocket.store.config_files import ConfigFile, ConfigFiles
from skyrocket.store.files import Disk
from tests.support.golden import GOLDEN

FILES: list[ConfigFile[Any]] = [
    c.TOPICS,
    c.SUBSCRIPTION_GROUPS,
    c.CONSUMER_OFFSETS,
    c.DELAY_OFFSETS,
    c.CONSUMER_FILTERS,
    c.CONSUMER_ORDERS,
    c.TIMER_METRICS,
    c.TRANSACTION_METRICS,
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `config` directory of the golden store."""
    root = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / "store.tar.xz") as store:
        store.extractall(root, [m for m in store.getmembers() if m.name.startswith("./config/")], filter="data")
    return root / "config"


def test_every_json_file_of_a_broker_is_in_the_table(config: Path):
    assert {path.name for path in config.glob("*.json")} <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_rewritten_byte_for_byte(config: Path, file: ConfigFile[Any]):
    text = (config / file.name).read_bytes()
    assert file.encode(file.decode(text)) == text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_brokers_config_directory_loads(config: Path, file: ConfigFile[Any]):
    loaded = ConfigFiles(Disk(), str(config)).load(file)
    assert loaded.body is not None
    assert loaded.problem is None


def test_content_of_the_files_is_decoded(config: Path):
    files = ConfigFiles(Disk(), str(config))
    topics = files.load(c.TOPICS).body
    offsets = files.load(c.CONSUMER_OFFSETS).body
    delays = files.load(c.DELAY_OFFSETS).body
    groups = files.load(c.SUBSCRIPTION_GROUPS).body
    assert topics.topic_config_table["SCHEDULE_TOPIC_XXXX"].read_queue_nums == 18
    assert offsets.offset_table["GoldenTopicR@GoldenGroupR"] == {0: 7, 1: 5}
    assert delays.offset_table == {1: 2, 3: 2, 4: 1}
    assert groups.subscription_group_table["AdmG"].consume_from_min_enable is False


# No broker left one of these with anything in it, so Apache's own classes were asked to write them.

ORDERS = (
    b'{\n\t"orderInfoCount":1,\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":{\n\t\t"T@G":{\n\t\t\t0:{\n\t\t\t\t"a":"att",\n'
    b'\t\t\t\t"cm":3,\n\t\t\t\t"i":60000,\n\t\t\t\t"l":99,\n\t\t\t\t"o":[3,1,6],\n\t\t\t\t"oc":{\n\t\t\t\t\t3:1,\n\t\t\t\t\t9:2\n'
    b'\t\t\t\t},\n\t\t\t\t"ot":{\n\t\t\t\t\t4:77\n\t\t\t\t},\n\t\t\t\t"popTime":5\n\t\t\t},\n\t\t\t1:{\n\t\t\t\t"cm":0,\n'
    b'\t\t\t\t"l":0,\n\t\t\t\t"o":[],\n\t\t\t\t"popTime":0\n\t\t\t}\n\t\t}\n\t}\n}'
)
FILTERS = (
    '{\n\t"filterDataByTopic":{\n\t\t"T":{\n\t\t\t"groupFilterData":{\n\t\t\t\t"H":{\n\t\t\t\t\t"bloomFilterData":{\n'
    '\t\t\t\t\t\t"bitNum":216,\n\t\t\t\t\t\t"bitPos":[72,183,39]\n\t\t\t\t\t},\n\t\t\t\t\t"bornTime":1794741142489,\n'
    '\t\t\t\t\t"clientVersion":8,\n\t\t\t\t\t"consumerGroup":"H",\n\t\t\t\t\t"dead":false,\n\t\t\t\t\t"deadTime":0,\n'
    '\t\t\t\t\t"expression":"a > 5 AND b=\'ü\'",\n\t\t\t\t\t"expressionType":"SQL92",\n\t\t\t\t\t"topic":"T"\n\t\t\t\t}\n'
    '\t\t\t},\n\t\t\t"topic":"T"\n\t\t}\n\t}\n}'
).encode()


def test_consumer_order_info_is_written_as_apache_writes_it():
    orders = c.CONSUMER_ORDERS.decode(ORDERS)
    assert orders.table["T@G"][0].consumed_counts == {3: 1, 9: 2}
    assert c.CONSUMER_ORDERS.encode(orders) == ORDERS


def test_filters_are_written_as_apache_writes_them():
    filters = c.CONSUMER_FILTERS.decode(FILTERS)
    assert filters.filter_data_by_topic["T"].group_filter_data["H"].expression == "a > 5 AND b='ü'"
    assert c.CONSUMER_FILTERS.encode(filters) == FILTERS

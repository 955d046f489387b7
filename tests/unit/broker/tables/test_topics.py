from __future__ import annotations

import tarfile

import pytest

from skyrocket.broker.errors import InvalidArgumentError, SystemTopicError, TableFullError, TopicPendingError
from skyrocket.broker.limits import QUEUES_PER_TOPIC_MAX
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.topics import TopicTable, system_topics
from skyrocket.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.system_names import DEFAULT_TOPIC
from skyrocket.store.config_files import TOPICS
from tests.support.golden import GOLDEN

LAB = BrokerSettings(cluster_name="Lab", broker_name="broker-a", default_topic_queues=4)


def a_table(settings: BrokerSettings = LAB) -> TopicTable:
    return TopicTable(lambda: settings, lambda: 5_000)


def orders(**more: object) -> TopicConfig:
    return TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2, **more)  # type: ignore[arg-type]


def golden_topics() -> TopicConfigSerializeWrapper:
    with tarfile.open(GOLDEN / "store.tar.xz") as archive:
        member = next(member for member in archive if member.name.endswith("config/topics.json"))
        file = archive.extractfile(member)
        assert file is not None
        return TOPICS.decode(file.read())


def test_new_table_has_the_topics_that_apaches_broker_creates_at_start():
    theirs = golden_topics().topic_config_table
    table = a_table()
    for name in table:
        assert table.get(name) == theirs[name], name
    others = {name for name in theirs if not name.startswith(("Golden", "%"))}
    assert set(table) == others


def test_without_auto_creation_there_is_no_default_topic():
    assert DEFAULT_TOPIC not in {config.topic_name for config in system_topics(BrokerSettings(auto_create_topic=False))}


def test_trace_topic_is_created_at_start_if_the_setting_says_so():
    made = {config.topic_name: config for config in system_topics(BrokerSettings(trace_topic=True))}
    assert made["RMQ_SYS_TRACE_TOPIC"].write_queue_nums == 1
    assert "RMQ_SYS_TRACE_TOPIC" not in {config.topic_name for config in system_topics(BrokerSettings())}


def test_trace_topic_may_have_another_name():
    made = {config.topic_name for config in system_topics(BrokerSettings(trace_topic=True, trace_topic_name="my-traces"))}
    assert "my-traces" in made
    assert "RMQ_SYS_TRACE_TOPIC" not in made


def test_every_change_gives_a_new_version_and_calls_on_change():
    table, told = a_table(), []
    table.on_change.append(lambda: told.append(table.version.counter))
    assert (table.version.counter, table.version.timestamp) == (0, 5_000)
    assert table.put(orders())
    assert table.delete("orders")
    assert told == [1, 2]


def test_putting_an_equal_topic_changes_nothing():
    table = a_table()
    table.put(orders())
    assert not table.put(orders())
    assert table.version.counter == 1


@pytest.mark.parametrize(
    "config",
    [
        TopicConfig(topic_name=""),
        TopicConfig(topic_name=".."),
        TopicConfig(topic_name="a/b"),
        TopicConfig(topic_name="x" * 128),
        TopicConfig(topic_name="TBW102"),
        TopicConfig(topic_name="Lab"),
        TopicConfig(topic_name="broker-a"),
        TopicConfig(topic_name="rmq_sys_anything"),
        TopicConfig(topic_name="TRANS_CHECK_MAX_TIME_TOPIC"),
        orders(perm=8),
        orders(perm=-1),
        TopicConfig(topic_name="orders", read_queue_nums=-1),
        TopicConfig(topic_name="orders", write_queue_nums=QUEUES_PER_TOPIC_MAX + 1),
    ],
    ids=lambda config: f"{config.topic_name[:12]}-{config.perm}-{config.read_queue_nums}-{config.write_queue_nums}",
)
def test_a_bad_name_a_system_topic_or_a_bad_number_is_refused(config: TopicConfig):
    with pytest.raises(InvalidArgumentError):
        a_table().put(config)


def test_put_all_creates_all_topics_or_none():
    table = a_table()
    with pytest.raises(SystemTopicError):
        table.put_all([orders(), TopicConfig(topic_name="TBW102")])
    assert "orders" not in table
    assert table.version.counter == 0


def test_attributes_are_changed_one_by_one():
    table = a_table()
    table.put(orders(attributes={"+message.type": "FIFO"}))
    table.put(orders(perm=4))
    assert table.configs["orders"].attributes == {"message.type": "FIFO"}
    table.put(orders(attributes={"-message.type": ""}))
    assert table.configs["orders"].attributes == {}


def test_send_to_an_unknown_topic_creates_it_from_the_default_topic():
    table = a_table()
    made = table.create_on_send("orders", DEFAULT_TOPIC, 3, "10.0.0.7:1")
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
    assert table.get("orders") == made
    wide = table.create_on_send("wide", DEFAULT_TOPIC, 99, "10.0.0.7:1")
    assert wide is not None
    assert wide.write_queue_nums == 4, "never more queues than the default topic"
    none = table.create_on_send("none", DEFAULT_TOPIC, -3, "10.0.0.7:1")
    assert none is not None
    assert none.write_queue_nums == 0


def test_send_creates_no_topic_when_auto_creation_is_off_or_the_template_forbids_it():
    off = a_table(BrokerSettings(auto_create_topic=False))
    assert off.create_on_send("orders", DEFAULT_TOPIC, 3, "") is None
    assert a_table().create_on_send("orders", "SELF_TEST_TOPIC", 3, "") is None, "its permission cannot be inherited"
    assert a_table().create_on_send("orders", "nowhere", 3, "") is None
    assert a_table().create_on_send("a/b", DEFAULT_TOPIC, 3, "") is None


def test_auto_creation_stays_off_after_loading_a_file_from_when_it_was_on():
    saved = a_table().snapshot()
    table = a_table(BrokerSettings(auto_create_topic=False))
    table.load(saved)
    assert table.create_on_send("orders", DEFAULT_TOPIC, 3, "") is None
    assert table.configs[DEFAULT_TOPIC].perm == 6


def test_group_topic_is_created_once_and_takes_a_new_order_flag():
    table = a_table()
    assert table.create_for_group("%RETRY%billing", 1).write_queue_nums == 1
    assert table.version.counter == 1
    table.create_for_group("%RETRY%billing", 5)
    assert table.version.counter == 1
    assert table.create_for_group("%RETRY%billing", 5, order=True).order
    assert (table.configs["%RETRY%billing"].write_queue_nums, table.version.counter) == (1, 2)


def test_topics_of_the_order_configuration_become_ordered():
    table = a_table()
    table.put(orders())
    assert table.set_ordered(["orders", "unknown"])
    assert table.is_order("orders")
    assert not table.set_ordered(["orders"])


def test_deleting_a_system_topic_fails_and_an_unknown_one_changes_nothing():
    with pytest.raises(SystemTopicError):
        a_table().delete("SCHEDULE_TOPIC_XXXX")
    table = a_table()
    assert not table.delete("unknown")
    assert table.version.counter == 0


def test_apaches_topic_file_is_loaded_completely():
    saved = golden_topics()
    table = a_table()
    table.load(saved)
    assert table.snapshot() == saved


def test_loaded_name_that_leads_out_of_its_directory_is_skipped():
    table = a_table()
    table.load(TopicConfigSerializeWrapper(topic_config_table={"../x": orders(), "..": orders(), "y" * 200: orders()}))
    assert "../x" not in table
    assert ".." not in table
    assert table.configs["y" * 200].topic_name == "y" * 200


# --- changes that count when they are on disk


def a_staging_table() -> TopicTable:
    table = a_table()
    table.stages = True
    return table


def test_staged_topic_counts_when_its_save_has_finished():
    table = a_staging_table()
    changed: list[int] = []
    table.on_change.append(lambda: changed.append(len(table)))
    before = table.version
    assert table.stage_put([orders()])
    assert "orders" not in table
    rest, changes = table.begin_save()
    assert changes == {"topic_config_table": {"orders": orders()}}
    assert (table.version, rest.data_version.counter) == (before, before.counter + 1)
    assert changed == []
    table.finish_save()
    assert table.get("orders") == orders()
    assert table.version == rest.data_version
    assert changed == [len(table)]
    assert not table.stage_put([orders()]), "nothing changes"


def test_staged_topic_is_dropped_when_its_save_fails():
    table = a_staging_table()
    table.stage_put([orders()])
    table.begin_save()
    table.stage_put([orders(perm=4)])
    table.fail_save()
    assert "orders" not in table
    assert table.begin_save()[1] == {}
    table.finish_save()
    assert table.take_changes(1_000)["topic_config_table"]["orders"] is None, "the next save takes it out of the file"


def test_later_changes_build_on_staged_ones():
    table = a_staging_table()
    table.stage_put([orders(attributes={"+message.type": "FIFO"})])
    table.begin_save()
    table.stage_put([orders(perm=4)])
    assert table.stage_delete("orders")
    table.stage_put([orders(perm=2, attributes={"+message.type": "NORMAL"})])
    table.finish_save()
    assert table.configs["orders"].attributes == {"message.type": "FIFO"}
    assert table.configs["orders"].perm == 6
    table.begin_save()
    table.finish_save()
    assert table.configs["orders"].attributes == {"message.type": "NORMAL"}
    assert table.configs["orders"].perm == 2


def test_version_is_new_when_the_table_changed_during_a_save():
    """A nameserver skips a version that it knows: it would never learn of the staged topic."""
    table = a_staging_table()
    table.stage_put([orders()])
    rest, _ = table.begin_save()
    table.create_for_group("%RETRY%billing", 1)
    registered = table.version
    table.finish_save()
    assert table.version not in (registered, rest.data_version)


def test_send_waits_for_a_topic_that_is_staged():
    table = a_staging_table()
    for _ in range(2):
        with pytest.raises(TopicPendingError, match="'orders' is being created"):
            table.create_on_send("orders", DEFAULT_TOPIC, 3, "")
    table.begin_save()
    with pytest.raises(TopicPendingError):
        table.create_on_send("orders", DEFAULT_TOPIC, 3, "")
    with pytest.raises(TopicPendingError):
        table.create_durably("%DLQ%billing", 1)
    table.finish_save()
    made = table.create_on_send("orders", DEFAULT_TOPIC, 3, "")
    assert made is not None
    assert made.write_queue_nums == 3
    assert "%DLQ%billing" not in table


def test_staged_topics_take_room(monkeypatch: pytest.MonkeyPatch):
    table = a_staging_table()
    monkeypatch.setattr("skyrocket.broker.tables.topics.TOPICS_MAX", len(table) + 2)
    table.stage_put([orders()])
    table.begin_save()
    with pytest.raises(TopicPendingError):
        table.create_on_send("returns", DEFAULT_TOPIC, 3, "")
    assert table.create_on_send("invoices", DEFAULT_TOPIC, 3, "") is None
    with pytest.raises(TableFullError):
        table.create_durably("%DLQ%billing", 1)


def test_a_new_leader_adopts_the_changes_of_the_last_one_and_topics_that_only_have_messages():
    table = a_table()
    table.put(orders())
    table.put(TopicConfig(topic_name="kept"))
    said: list[list[str]] = []
    table.on_set = lambda changes: said.append(sorted(changes))
    changes = {"orders": orders(order=True), "new": TopicConfig(read_queue_nums=1), "gone": None, "kept": None, "../x": orders()}
    added = table.adopt(changes, {"new": 1, "gone": 3, "found": 6, "small": 1, "orders": 9})
    assert sorted(added) == ["found", "new", "small"]
    assert said == [["found", "new", "orders", "small"]]
    assert table.require("orders") == orders(order=True)
    assert table.require("new").read_queue_nums == 1
    assert table.require("found").read_queue_nums == 6
    assert table.require("small").read_queue_nums == LAB.default_topic_queues, "others may wait elsewhere"
    assert "gone" not in table
    assert "kept" in table
    assert table.adopt({}, {"found": 7}) == []
    assert len(said) == 1

from __future__ import annotations

import tarfile

from skyrocket.broker.tables.consumer_offsets import NOT_FOUND, ConsumerOffsets
from skyrocket.protocol.bodies import ConsumerOffsetManager
from skyrocket.store.config_files import CONSUMER_OFFSETS
from tests.support.golden import GOLDEN


def a_table() -> ConsumerOffsets:
    return ConsumerOffsets(lambda: 5_000)


def golden_offsets() -> ConsumerOffsetManager:
    with tarfile.open(GOLDEN / "store.tar.xz") as archive:
        member = next(member for member in archive if member.name.endswith("config/consumerOffset.json"))
        file = archive.extractfile(member)
        assert file is not None
        return CONSUMER_OFFSETS.decode(file.read())


def test_last_commit_counts_even_if_it_is_lower():
    table = a_table()
    assert table.query("billing", "orders", 0) == NOT_FOUND
    table.commit("billing", "orders", 0, 7)
    table.commit("billing", "orders", 0, 3)
    table.commit("billing", "orders", 1, 9)
    assert table.query("billing", "orders", 0) == 3
    assert table.snapshot().offset_table == {"orders@billing": {0: 3, 1: 9}}
    assert table.query("shipping", "orders", 0) == NOT_FOUND


def test_topics_of_a_group_and_groups_of_a_topic_are_listed():
    table = a_table()
    table.commit("billing", "orders", 0, 1)
    table.commit("billing", "returns", 0, 1)
    table.commit("shipping", "orders", 0, 1)
    assert sorted(table.topics_of("billing")) == ["orders", "returns"]
    assert sorted(table.groups_of("orders")) == ["billing", "shipping"]
    assert table.topics_by_group() == {"billing": ["orders", "returns"], "shipping": ["orders"]}


def test_pull_offset_is_the_committed_offset_until_the_first_pull():
    table = a_table()
    table.commit("billing", "orders", 0, 3)
    assert table.pull_offset("billing", "orders", 0) == 3
    table.set_pull_offset("billing", "orders", 0, 8)
    assert table.pull_offset("billing", "orders", 0) == 8


def test_reset_counts_at_once_and_is_taken_by_one_pull():
    table = a_table()
    table.commit("billing", "orders", 0, 9)
    table.reset("billing", "orders", 0, 2)
    assert table.query("billing", "orders", 0) == 2
    assert table.has_reset("billing", "orders", 0)
    assert table.take_reset("billing", "orders", 1) is None
    assert table.take_reset("billing", "orders", 0) == 2
    assert table.take_reset("billing", "orders", 0) is None
    assert not table.has_reset("billing", "orders", 0)
    assert table.query("billing", "orders", 0) == 2, "the reset offset is the committed offset now"


def test_cloned_offsets_are_a_copy():
    table = a_table()
    table.commit("billing", "orders", 0, 3)
    table.commit("audit", "orders", 5, 99)
    assert table.clone("billing", "audit", "orders")
    table.commit("billing", "orders", 0, 4)
    assert table.snapshot().offset_table["orders@audit"] == {0: 3}
    assert not table.clone("nobody", "audit", "orders")


def test_removing_a_group_or_topic_removes_its_offsets():
    table = a_table()
    for group in ("billing", "bill"):
        for topic in ("orders", "order"):
            table.commit(group, topic, 0, 1)
            table.set_pull_offset(group, topic, 0, 1)
            table.reset(group, topic, 0, 1)
    table.remove_group("bill")
    assert table.topics_of("bill") == []
    assert table.query("billing", "orders", 0) == 1
    table.remove_topic("orders")
    assert table.topics_by_group() == {"billing": ["order"]}
    assert table.take_reset("billing", "orders", 0) is None


def test_version_changes_with_every_500th_commit():
    table = a_table()
    for offset in range(999):
        table.commit("billing", "orders", 0, offset)
    assert table.version.counter == 1
    table.commit("billing", "orders", 0, 999)
    assert table.version.counter == 2


def test_commit_of_the_same_offset_is_no_change():
    table = a_table()
    table.commit("billing", "orders", 0, 3)
    changes = table.changes
    table.commit("billing", "orders", 0, 3)
    assert table.changes == changes


def test_snapshot_does_not_change_with_the_table():
    table = a_table()
    table.commit("billing", "orders", 0, 3)
    snapshot = table.snapshot()
    table.commit("billing", "orders", 0, 4)
    assert snapshot.offset_table == {"orders@billing": {0: 3}}
    assert snapshot.group_topic_map == {"billing": ["orders"]}


def test_what_apaches_broker_saved_is_taken_over():
    saved = golden_offsets()
    table = a_table()
    table.load(saved)
    again = table.snapshot()
    assert again.offset_table == saved.offset_table
    assert {group: sorted(topics) for group, topics in (again.group_topic_map or {}).items()} == {
        group: sorted(topics) for group, topics in (saved.group_topic_map or {}).items()
    }
    assert table.query("GoldenGroupJ", "GoldenTopicJ", 1) == 7
    assert "BGoldenGroupJ" not in table.topics_by_group(), "offsets of broadcasting consumers are not listed"

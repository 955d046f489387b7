from __future__ import annotations

import tarfile

import msgspec
import pytest

from skyrocket.broker.tables import consumer_offsets
from skyrocket.broker.tables.consumer_offsets import NOT_FOUND, ConsumerOffsets, offsets_key
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


def file_of(table: ConsumerOffsets) -> ConsumerOffsetManager:
    """Return what a first save of the table would write."""
    changes = table.take_changes(2**31)
    return msgspec.structs.replace(table.rest_of_file(), **changes)


def test_last_commit_counts_even_if_it_is_lower():
    table = a_table()
    assert table.query("billing", "orders", 0) == NOT_FOUND
    table.commit("billing", "orders", 0, 7)
    table.commit("billing", "orders", 0, 3)
    table.commit("billing", "orders", 1, 9)
    assert table.query("billing", "orders", 0) == 3
    assert file_of(table).offset_table == {"orders@billing": {0: 3, 1: 9}}
    assert table.query("shipping", "orders", 0) == NOT_FOUND


def test_topics_of_a_group_and_groups_of_a_topic_are_listed():
    table = a_table()
    table.commit("billing", "orders", 0, 1)
    table.commit("billing", "returns", 0, 1)
    table.commit("shipping", "orders", 0, 1)
    assert sorted(table.topics_of("billing")) == ["orders", "returns"]
    assert sorted(table.groups_of("orders")) == ["billing", "shipping"]


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
    assert table.has_reset_at(offsets_key("orders", "billing"), 0)
    assert table.take_reset("billing", "orders", 1) is None
    assert table.take_reset("billing", "orders", 0) == 2
    assert table.has_reset_at(offsets_key("orders", "billing"), 0), "until the group pulls again"
    assert table.take_reset("billing", "orders", 0) is None
    assert not table.has_reset_at(offsets_key("orders", "billing"), 0)
    assert table.query("billing", "orders", 0) == 2, "the reset offset is the committed offset now"


def test_commits_are_dropped_until_the_pull_after_the_one_that_was_told_of_a_reset():
    table = a_table()
    table.commit("billing", "orders", 0, 9)
    table.reset("billing", "orders", 0, 2)
    assert not table.commit("billing", "orders", 0, 10)
    table.take_reset("billing", "orders", 0)
    assert not table.commit("billing", "orders", 0, 11), "it was on its way"
    assert table.commit("billing", "orders", 1, 5), "another queue"
    table.take_reset("billing", "orders", 0)
    assert table.query("billing", "orders", 0) == 2
    assert table.commit("billing", "orders", 0, 3)
    assert table.query("billing", "orders", 0) == 3


def test_oldest_pull_offsets_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumer_offsets, "PULL_OFFSETS_MAX", 3)
    table = a_table()
    for number in range(100):
        table.commit(f"group-{number}", "orders", 0, 1)
        table.set_pull_offset(f"group-{number}", "orders", 0, 50)
        table.set_pull_offset(f"group-{number}", "orders", 0, 60)
    assert [table.pull_offset(f"group-{number}", "orders", 0) for number in (0, 96, 97, 98, 99)] == [1, 1, 60, 60, 60]
    assert len(file_of(table).pull_offset_table or {}) == 100, "the file learns which are gone"
    table.remove_topic("orders")
    for number in range(3):
        table.set_pull_offset("billing", "orders", number, 7)
    assert [table.pull_offset("billing", "orders", number) for number in range(3)] == [7, 7, 7], "removed ones are not counted"


def test_cloned_offsets_are_a_copy():
    table = a_table()
    table.commit("billing", "orders", 0, 3)
    table.commit("audit", "orders", 5, 99)
    assert table.clone("billing", "audit", "orders")
    table.commit("billing", "orders", 0, 4)
    assert file_of(table).offset_table["orders@audit"] == {0: 3}
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
    assert list(table.iterate_pairs()) == [("order", "billing")]
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


def test_changes_for_a_save_are_copies_and_are_taken_once():
    table = a_table()
    table.commit("billing", "orders", 0, 3)
    table.set_pull_offset("billing", "orders", 0, 5)
    taken = table.take_changes(100)
    assert table.take_changes(100) == {}
    table.commit("billing", "orders", 0, 4)
    assert taken == {
        "offset_table": {"orders@billing": {0: 3}},
        "pull_offset_table": {"orders@billing": {0: 5}},
        "group_topic_map": {"billing": ["orders"]},
    }
    assert table.take_changes(100) == {"offset_table": {"orders@billing": {0: 4}}}
    table.put_back(taken)
    table.remove_group("billing")
    gone = {"offset_table": {"orders@billing": None}, "pull_offset_table": {"orders@billing": None}}
    assert table.take_changes(100) == gone | {"group_topic_map": {"billing": None}}


def test_changes_are_taken_in_parts():
    table = a_table()
    for number in range(10):
        for queue_id in range(5):
            table.commit(f"group-{number}", "orders", queue_id, queue_id)
    parts = []
    while part := table.take_changes(10):
        parts.append(part)
    assert sum(len(part.get("offset_table", ())) for part in parts) == 10
    assert all(sum(map(len, part.get("offset_table", {}).values())) <= 10 for part in parts)


def test_what_apaches_broker_saved_is_taken_over():
    saved = golden_offsets()
    table = a_table()
    table.load(saved)
    again = file_of(table)
    assert again.offset_table == saved.offset_table
    assert {group: sorted(topics) for group, topics in (again.group_topic_map or {}).items()} == {
        group: sorted(topics) for group, topics in (saved.group_topic_map or {}).items()
    }
    assert table.query("GoldenGroupJ", "GoldenTopicJ", 1) == 7
    assert not table.topics_of("BGoldenGroupJ"), "offsets of broadcasting consumers are not listed"

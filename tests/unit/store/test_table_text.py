"""The text that grows change by change is the text of the whole body, character for character."""

from __future__ import annotations

from random import Random

import pytest

from skyrocket.protocol.bodies import ConsumerOffsetManager, DataVersion, TopicConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import encode_pretty
from skyrocket.store import table_text
from skyrocket.store.config_files import CONSUMER_OFFSETS, TOPICS
from skyrocket.store.table_text import TableChanges, TableText


@pytest.mark.parametrize("seed", range(20))
def test_text_equals_that_of_the_whole_body(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_text, "ENTRIES_PER_PIECE", 3)
    rng, text, table = Random(seed), TableText(TOPICS.tables), {}
    for counter in range(30):
        changes: TableChanges = {"topic_config_table": {}}
        for _ in range(rng.randrange(6)):
            name = f"topic-{rng.randrange(12)}"
            made = None if rng.random() < 0.4 else TopicConfig(topic_name=name, perm=rng.randrange(8), attributes={'a"': "{1:2,"})
            changes["topic_config_table"][name] = made
        for name, made in changes["topic_config_table"].items():
            if made is None:
                table.pop(name, None)
            else:
                table[name] = made
        text.update(changes)
        version = DataVersion(counter=counter)
        whole = TopicConfigSerializeWrapper(topic_config_table=table, data_version=version)
        assert b"".join(text.pieces(TopicConfigSerializeWrapper(data_version=version))) == encode_pretty(whole)


def test_text_of_offsets_equals_that_of_the_whole_body():
    tables = {
        "offset_table": {"orders@billing": {0: 7, 3: 9}, "orders@audit": {1: 2}},
        "pull_offset_table": {},
        "group_topic_map": {"billing": ["orders"], "audit": ["orders"]},
    }
    text = TableText(CONSUMER_OFFSETS.tables)
    text.update(tables)
    rest = ConsumerOffsetManager(data_version=DataVersion(counter=4))
    whole = ConsumerOffsetManager(data_version=DataVersion(counter=4), **tables)
    assert b"".join(text.pieces(rest)) == encode_pretty(whole)


def test_an_entry_that_cannot_be_encoded_changes_nothing():
    text = TableText(TOPICS.tables)
    with pytest.raises(BodyError, match="surrogate"):
        text.update({"topic_config_table": {"sound": TopicConfig(), "half \ud83d": TopicConfig()}})
    assert b"sound" not in b"".join(text.pieces(TopicConfigSerializeWrapper()))

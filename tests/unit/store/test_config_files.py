"""Config files are saved all or nothing, and the previous content is always there as a fallback."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from skyrocket.protocol.bodies import ConsumerOffsetManager, DataVersion, TopicConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.limits import LENIENT_JSON_BYTES_MAX
from skyrocket.store.config_files import CONSUMER_OFFSETS, DELAY_OFFSETS, TOPICS, ConfigFiles
from skyrocket.store.errors import ConfigFileError, DiskFullError, StoreError
from skyrocket.store.files import Disk


def topics(*names: str) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper(
        topic_config_table={name: TopicConfig(topic_name=name) for name in names},
        data_version=DataVersion(timestamp=7, counter=len(names)),
    )


class FailingDisk(Disk):
    """A disk that is full from the Nth replaced file on."""

    def __init__(self, good: int) -> None:
        super().__init__()
        super().__init__()
        self.good = good

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        if self.good == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.good -= 1
        super().replace_with_backup(path, pieces, backup)


def opened(directory: Path) -> ConfigFiles:
    """Return config files as a starting broker has them, without a cache."""
    return ConfigFiles(Disk(), str(directory))


def test_saved_content_is_loaded_again(tmp_path: Path):
    opened(tmp_path / "config").save(TOPICS, topics("orders", "bills"))
    assert opened(tmp_path / "config").load(TOPICS) == (topics("orders", "bills"), None)


def test_missing_file_loads_as_none(tmp_path: Path):
    assert opened(tmp_path).load(TOPICS) == (None, None)


def test_integer_keys_are_unquoted_and_nesting_is_indented_with_tabs(tmp_path: Path):
    config = opened(tmp_path)
    config.save(DELAY_OFFSETS, DELAY_OFFSETS.content(offset_table={1: 2, 3: 4}))
    assert (tmp_path / "delayOffset.json").read_bytes() == b'{\n\t"offsetTable":{\n\t\t1:2,\n\t\t3:4\n\t}\n}'


def test_previous_content_stays_in_the_bak(tmp_path: Path):
    config = opened(tmp_path)
    config.save(TOPICS, topics("a"))
    assert not (tmp_path / "topics.json.bak").exists()
    config.save(TOPICS, topics("a", "b"))
    assert TOPICS.decode((tmp_path / "topics.json.bak").read_bytes()) == topics("a")
    opened(tmp_path).save(TOPICS, topics("a", "b", "c"))
    assert TOPICS.decode((tmp_path / "topics.json.bak").read_bytes()) == topics("a", "b")


def test_saving_unchanged_content_writes_nothing(tmp_path: Path):
    opened(tmp_path).save(TOPICS, topics("a"))
    before = (tmp_path / "topics.json").stat().st_ino
    opened(tmp_path).save(TOPICS, topics("a"))
    assert (tmp_path / "topics.json").stat().st_ino == before
    assert not (tmp_path / "topics.json.bak").exists()


@pytest.mark.parametrize("damage", [b"", b"{", b'{"topicConfigTable":7}', b"\xff\xfe", b"[]", b"{{{{", b"nonsense"])
def test_a_damaged_file_falls_back_to_the_bak_and_says_so(tmp_path: Path, damage: bytes):
    config = opened(tmp_path)
    config.save(TOPICS, topics("a"))
    config.save(TOPICS, topics("a", "b"))
    (tmp_path / "topics.json").write_bytes(damage)
    body, problem = opened(tmp_path).load(TOPICS)
    assert body == topics("a")
    assert problem is not None
    assert "topics.json was not read (" in problem
    assert "topics.json.bak, the content before it, was read instead." in problem


def test_missing_file_falls_back_to_the_bak(tmp_path: Path):
    opened(tmp_path).save(TOPICS, topics("a"))
    (tmp_path / "topics.json").rename(tmp_path / "topics.json.bak")
    body, problem = opened(tmp_path).load(TOPICS)
    assert body == topics("a")
    assert problem is not None
    assert "it does not exist" in problem


def test_save_does_not_overwrite_a_sound_bak_with_a_damaged_file(tmp_path: Path):
    config = opened(tmp_path)
    config.save(TOPICS, topics("a"))
    config.save(TOPICS, topics("a", "b"))
    (tmp_path / "topics.json").write_bytes(b"{")
    again = opened(tmp_path)
    again.load(TOPICS)
    again.save(TOPICS, topics("c"))
    assert TOPICS.decode((tmp_path / "topics.json.bak").read_bytes()) == topics("a")
    assert opened(tmp_path).load(TOPICS) == (topics("c"), None)


def test_unreadable_file_and_bak_raise_one_error(tmp_path: Path):
    (tmp_path / "topics.json").write_bytes(b"{")
    (tmp_path / "topics.json.bak").write_bytes(b"")
    with pytest.raises(ConfigFileError, match=r"Neither .*topics\.json nor its \.bak can be read: .*it is empty\.$"):
        opened(tmp_path).load(TOPICS)


def test_a_damaged_file_without_a_bak_is_an_error(tmp_path: Path):
    (tmp_path / "topics.json").write_bytes(b'{"topicConfigTable":')
    with pytest.raises(ConfigFileError, match=r"cannot be read, and it has no \.bak"):
        opened(tmp_path).load(TOPICS)


def test_empty_file_without_a_bak_loads_as_none_with_a_problem(tmp_path: Path):
    (tmp_path / "topics.json").write_bytes(b"")
    body, problem = opened(tmp_path).load(TOPICS)
    assert body is None
    assert problem is not None
    assert "is empty" in problem


def test_whatever_can_be_saved_can_be_loaded(tmp_path: Path):
    offsets = {f"topic-{number}@group": dict.fromkeys(range(100), number) for number in range(4_000)}
    opened(tmp_path).save_changes(CONSUMER_OFFSETS, ConsumerOffsetManager(), {"offset_table": offsets})
    assert (tmp_path / "consumerOffset.json").stat().st_size > LENIENT_JSON_BYTES_MAX
    body, problem = opened(tmp_path).load(CONSUMER_OFFSETS)
    assert problem is None
    assert body is not None
    assert body.offset_table == offsets


def test_changes_are_added_to_what_was_saved_before(tmp_path: Path):
    config = opened(tmp_path)
    saved = topics("a", "b", "c")
    rest = TopicConfigSerializeWrapper(data_version=saved.data_version)
    config.save_changes(TOPICS, rest, {"topic_config_table": {name: TopicConfig(topic_name=name) for name in "axbc"}})
    config.save_changes(TOPICS, rest, {"topic_config_table": {"x": None}})
    assert (tmp_path / "topics.json").read_bytes() == TOPICS.encode(saved)
    assert TOPICS.decode((tmp_path / "topics.json.bak").read_bytes()).topic_config_table.keys() == set("axbc")


def test_bak_is_a_copy_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    config = opened(tmp_path)
    config.save(TOPICS, topics("a"))
    config.save(TOPICS, topics("a", "b"))
    assert TOPICS.decode((tmp_path / "topics.json.bak").read_bytes()) == topics("a")
    assert opened(tmp_path).load(TOPICS) == (topics("a", "b"), None)


def test_content_that_cannot_be_encoded_raises_and_changes_nothing(tmp_path: Path):
    config = opened(tmp_path)
    config.save(TOPICS, topics("a"))
    with pytest.raises(ConfigFileError, match=r"topics\.json"):
        config.save(TOPICS, topics("half a pair \ud83d"))
    assert opened(tmp_path).load(TOPICS) == (topics("a"), None)


def test_full_disk_keeps_the_old_content_and_a_later_save_works(tmp_path: Path):
    opened(tmp_path).save(TOPICS, topics("a"))
    disk = FailingDisk(good=0)
    config = ConfigFiles(disk, str(tmp_path))
    with pytest.raises(DiskFullError, match=r"saving .*topics\.json"):
        config.save(TOPICS, topics("b"))
    assert opened(tmp_path).load(TOPICS) == (topics("a"), None)
    disk.good = 2
    config.save(TOPICS, topics("c"))
    assert opened(tmp_path).load(TOPICS) == (topics("c"), None)
    assert TOPICS.decode((tmp_path / "topics.json.bak").read_bytes()) == topics("a")


def test_file_without_read_permission_raises_a_store_error(tmp_path: Path):
    (tmp_path / "topics.json").mkdir()
    with pytest.raises(StoreError):
        opened(tmp_path).load(TOPICS)

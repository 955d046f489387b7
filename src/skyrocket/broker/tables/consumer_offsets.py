"""Consumer offsets: how far each group has consumed each queue.

    commit(group, topic, queue, offset)         the group has consumed everything before `offset`
    query(group, topic, queue)                  the committed offset; NOT_FOUND when the group never committed one
    set_pull_offset(…), pull_offset(…)          how far the group has pulled, committed or not
    reset(…)                                    an administrator moves the group (222)
    take_reset(group, topic, queue)             the offset that the group's next pull must continue from, once

A reset is in force until the group pulls the queue again after a pull that was told of it. Until then commits are dropped: they
were on their way, or belong to messages from before the reset.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from skyrocket.broker.errors import TableFullError
from skyrocket.broker.limits import OFFSETS_MAX, PULL_OFFSETS_MAX
from skyrocket.protocol.bodies import ConsumerOffsetManager, ConsumerOffsetSerializeWrapper, DataVersion
from skyrocket.store.table_text import TableChanges

NOT_FOUND: Final = -1
_SEPARATOR = "@"
_COMMITS_PER_VERSION = 500  # Apache's consumerOffsetUpdateVersionStep

Table = dict[str, dict[int, int]]  # topic@group -> queue -> offset


@dataclass(slots=True)
class _Reset:
    offset: int
    is_told: bool = False  # a pull was answered with the offset


class ConsumerOffsets:
    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._committed: Table = {}
        self._topics: dict[str, dict[str, None]] = {}  # the topics in which each group has offsets
        self._pull_offsets: OrderedDict[str, dict[int, int]] = OrderedDict()  # the oldest are dropped when there are too many
        self._resets: dict[str, dict[int, _Reset]] = {}
        self._count = 0  # offsets in `_committed`
        self._pull_count = 0
        self._commits = 0
        self.version = DataVersion(timestamp=wall_ms())
        self.changes = 0  # counts changes that the file must contain
        # Keys of each table in the file that changed since they were last taken for a save.
        self._unsaved_offsets: dict[str, None] = {}
        self._unsaved_pulls: dict[str, None] = {}
        self._unsaved_groups: dict[str, None] = {}

    # --- lookups

    def query(self, group: str, topic: str, queue_id: int) -> int:
        key = offsets_key(topic, group)
        if self._resets and (reset := self._resets.get(key)) is not None and queue_id in reset:
            return reset[queue_id].offset
        queues = self._committed.get(key)
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of the group's last pull, or its committed offset when it has not pulled."""
        queues = self._pull_offsets.get(offsets_key(topic, group))
        found = None if queues is None else queues.get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    def iterate_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the (topic, group) pairs as they are now. Changes meanwhile do no harm."""
        for group, topics in list(self._topics.items()):
            for topic in list(topics):
                yield topic, group

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return list(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return [group for group, topics in self._topics.items() if topic in topics]

    # --- changes by consumers

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store an offset; return False when a reset is in force and the offset is dropped.

        It may be lower than the one before: a consumer may start over.
        """
        return self.commit_at(offsets_key(topic, group), queue_id, offset)

    def commit_at(self, key: str, queue_id: int, offset: int) -> bool:
        """`commit` for a caller that keeps the key of topic and group (`offsets_key`)."""
        if self._resets and queue_id in self._resets.get(key, ()):
            return False
        self._put(key, queue_id, offset)
        self._commits += 1
        if self._commits % _COMMITS_PER_VERSION == 0:
            self.version = self.version.next(0, self._wall_ms())
        return True

    def _put(self, key: str, queue_id: int, offset: int) -> None:
        queues = self._committed.get(key)
        if queues is None or queue_id not in queues:
            if self._count >= OFFSETS_MAX:
                raise TableFullError(f"There are {self._count} offsets of groups; no more are kept.")
            if queues is None:
                queues = self._committed[key] = {}
                self._index(key)
            self._count += 1
        elif queues[queue_id] == offset:
            return
        queues[queue_id] = offset
        self._unsaved_offsets[key] = None
        self.changes += 1

    def _index(self, key: str) -> None:
        """Take note that a group has offsets in a topic. Keys of three parts are Apache's offsets of broadcasting consumers."""
        parts = key.split(_SEPARATOR)
        if len(parts) == 2:
            topic, group = parts
            self._topics.setdefault(group, {})[topic] = None
            self._unsaved_groups[group] = None

    def set_pull_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take note how far a group has pulled. When there are too many of these offsets, the oldest are forgotten."""
        self.set_pull_offset_at(offsets_key(topic, group), queue_id, offset)

    def set_pull_offset_at(self, key: str, queue_id: int, offset: int) -> None:
        """`set_pull_offset` for a caller that keeps the key."""
        queues = self._pull_offsets.get(key)
        if queues is None or queue_id not in queues:
            while self._pull_count >= PULL_OFFSETS_MAX:
                dropped, gone = self._pull_offsets.popitem(last=False)
                self._pull_count -= len(gone)
                self._unsaved_pulls[dropped] = None
            queues = self._pull_offsets.setdefault(key, {})
            self._pull_count += 1
        queues[queue_id] = offset
        self._unsaved_pulls[key] = None

    # --- changes by an administrator

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = offsets_key(topic, group)
        self._put(key, queue_id, offset)
        self._resets.setdefault(key, {})[queue_id] = _Reset(offset)

    def has_reset_at(self, key: str, queue_id: int) -> bool:
        """Whether a reset of a queue is in force. The caller keeps the key: `offsets_key(topic, group)`."""
        return bool(self._resets) and queue_id in self._resets.get(key, {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that a pull of this queue must continue from; None when there is no reset.

        The first pull after a reset is told. The next one ends the reset.
        """
        if not self._resets:
            return None
        key = offsets_key(topic, group)
        queues = self._resets.get(key, {})
        reset = queues.get(queue_id)
        if reset is None:
            return None
        if not reset.is_told:
            reset.is_told = True
            return reset.offset
        del queues[queue_id]
        if not queues:
            del self._resets[key]
        return None

    def clone(self, source_group: str, group: str, topic: str) -> bool:
        """Copy the offsets of `source_group` in a topic to `group`; return False when it has none."""
        source = self._committed.get(offsets_key(topic, source_group))
        if source is None:
            return False
        key = offsets_key(topic, group)
        self._count += len(source) - len(self._committed.get(key, {}))
        self._committed[key] = dict(source)
        self._index(key)
        self._unsaved_offsets[key] = None
        self.changes += 1
        return True

    def remove_group(self, group: str) -> None:
        self._remove(lambda _, of: of == group)

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda of, _: of == topic)

    def _remove(self, wanted: Callable[[str, str], bool]) -> None:
        for key in _matching(self._committed, wanted):
            self._drop(key)
        for key in _matching(self._pull_offsets, wanted):
            self._pull_count -= len(self._pull_offsets.pop(key))
            self._unsaved_pulls[key] = None
        for key in _matching(self._resets, wanted):
            del self._resets[key]

    def _drop(self, key: str) -> None:
        """Drop the committed offsets of a group in a topic. Keys of three parts are Apache's, of broadcasting consumers."""
        self._count -= len(self._committed.pop(key))
        self._unsaved_offsets[key] = None
        self.changes += 1
        parts = key.split(_SEPARATOR)
        if len(parts) == 2:
            topic, group = parts
            self._topics[group].pop(topic, None)
            if not self._topics[group]:
                del self._topics[group]
            self._unsaved_groups[group] = None

    # --- the whole table

    def rest_of_file(self) -> ConsumerOffsetManager:
        """Return the file's content without its tables."""
        return ConsumerOffsetManager(data_version=self.version)

    def take_changes(self, most: int) -> TableChanges:
        """Return copies of entries that changed since they were last taken, with about `most` offsets; nothing when none did."""
        changes: TableChanges = {}
        for name, unsaved, copy in (
            ("offset_table", self._unsaved_offsets, lambda key: _copy(self._committed.get(key))),
            ("pull_offset_table", self._unsaved_pulls, lambda key: _copy(self._pull_offsets.get(key))),
            ("group_topic_map", self._unsaved_groups, lambda group: self.topics_of(group) or None),
        ):
            copies: dict[str, Any] = {}
            for key in unsaved:
                if most <= 0:
                    break
                copies[key] = found = copy(key)
                most -= len(found or (key,))
            for key in copies:
                del unsaved[key]
            if copies:
                changes[name] = copies
        return changes

    def put_back(self, changes: TableChanges) -> None:
        """Take note that a save failed: these entries have to be saved again, as they will be then."""
        self._unsaved_offsets.update(dict.fromkeys(changes.get("offset_table", ())))
        self._unsaved_pulls.update(dict.fromkeys(changes.get("pull_offset_table", ())))
        self._unsaved_groups.update(dict.fromkeys(changes.get("group_topic_map", ())))

    def for_slaves(self) -> ConsumerOffsetSerializeWrapper:
        """Return the table for a slave (43), without the fields that Apache's slaves fail to read."""
        return ConsumerOffsetSerializeWrapper(offset_table=self._committed, data_version=self.version)

    def follow(self, offsets: Iterable[tuple[str, dict[int, int]]]) -> None:
        """Take offsets of the master (`topic@group`, offsets by queue), which a slave copies.

        When there is no room, keep those that are there.
        """
        for key, queues in offsets:
            for queue_id, offset in queues.items():
                if self._count < OFFSETS_MAX or queue_id in self._committed.get(key, ()):
                    self._put(key, queue_id, offset)

    def retain(self, keys: Container[str]) -> None:
        """Drop the offsets that the master does not have: `keys` are those of its table. (Apache's slave keeps them.)"""
        for key in [key for key in self._committed if key not in keys]:
            self._drop(key)

    def load(self, saved: ConsumerOffsetManager) -> None:
        """Load committed offsets. Like Apache's broker, drop pull offsets: pulls continue from the committed offset."""
        self._committed = saved.offset_table
        self._count = sum(map(len, self._committed.values()))
        for key in self._committed:
            self._index(key)
        self._unsaved_offsets = dict.fromkeys(self._committed)
        if saved.data_version is not None:
            self.version = saved.data_version


def _copy(queues: dict[int, int] | None) -> dict[int, int] | None:
    return None if queues is None else dict(queues)


def _matching(keys: Iterable[str], wanted: Callable[[str, str], bool]) -> list[str]:
    """Return the keys whose topic and group are wanted."""
    return [key for key in keys if len(parts := key.split(_SEPARATOR)) == 2 and wanted(parts[0], parts[1])]


def offsets_key(topic: str, group: str) -> str:
    """Return the key of a group's offsets in a topic, in the table and in its file."""
    return f"{topic}{_SEPARATOR}{group}"

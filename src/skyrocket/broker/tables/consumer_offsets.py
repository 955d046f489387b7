"""Consumer offsets: how far each group has consumed each queue.

    commit(group, topic, queue, offset)         the group has consumed everything before `offset`
    query(group, topic, queue)                  the committed offset; NOT_FOUND when the group never committed one
    set_pull_offset(…), pull_offset(…)          how far the group has pulled, committed or not
    reset(…)                                    an administrator moves the group (222)
    take_reset(group, topic, queue)             the offset that the group's next pull must continue from, once

A reset is in force until the group's next pull of the queue takes it. Until then, commits from before the reset are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from skyrocket.broker.errors import TableFullError
from skyrocket.broker.limits import OFFSETS_MAX
from skyrocket.protocol.bodies import ConsumerOffsetManager, ConsumerOffsetSerializeWrapper, DataVersion

NOT_FOUND: Final = -1
_SEPARATOR = "@"
_COMMITS_PER_VERSION = 500  # Apache's consumerOffsetUpdateVersionStep

Table = dict[str, dict[int, int]]  # topic@group -> queue -> offset


class ConsumerOffsets:
    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._committed: Table = {}
        self._pull_offsets: Table = {}
        self._resets: Table = {}
        self._count = 0  # offsets in `_committed`
        self._commits = 0
        self.version = DataVersion(timestamp=wall_ms())
        self.changes = 0  # counts changes that the file must contain

    # --- lookups

    def query(self, group: str, topic: str, queue_id: int) -> int:
        key = _key(topic, group)
        if self._resets and (reset := self._resets.get(key)) is not None and queue_id in reset:
            return reset[queue_id]
        queues = self._committed.get(key)
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of the group's last pull, or its committed offset when it has not pulled."""
        queues = self._pull_offsets.get(_key(topic, group))
        found = None if queues is None else queues.get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    def topics_by_group(self) -> dict[str, list[str]]:
        topics: dict[str, list[str]] = {}
        for topic, group in self._pairs():
            topics.setdefault(group, []).append(topic)
        return topics

    def iterate_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the (topic, group) pairs as they are now. Changes meanwhile do no harm."""
        for key in list(self._committed):
            if len(parts := key.split(_SEPARATOR)) == 2:
                yield parts[0], parts[1]

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return [topic for topic, of in self._pairs() if of == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return [group for of, group in self._pairs() if of == topic]

    def _pairs(self) -> list[tuple[str, str]]:
        """Return (topic, group) pairs, without keys of three parts: Apache's offsets of broadcasting consumers."""
        return list(self.iterate_pairs())

    # --- changes by consumers

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset. It may be lower than the one before: a consumer may start over."""
        self._put(_key(topic, group), queue_id, offset)
        self._commits += 1
        if self._commits % _COMMITS_PER_VERSION == 0:
            self.version = self.version.next(0, self._wall_ms())

    def _put(self, key: str, queue_id: int, offset: int) -> None:
        queues = self._committed.get(key)
        if queues is None or queue_id not in queues:
            if self._count >= OFFSETS_MAX:
                raise TableFullError(f"There are {self._count} offsets of groups; no more are kept.")
            queues = self._committed.setdefault(key, {})
            self._count += 1
        elif queues[queue_id] == offset:
            return
        queues[queue_id] = offset
        self.changes += 1

    def set_pull_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._pull_offsets.setdefault(_key(topic, group), {})[queue_id] = offset

    # --- changes by an administrator

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = _key(topic, group)
        self._put(key, queue_id, offset)
        self._resets.setdefault(key, {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(_key(topic, group), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return and forget the offset that the group's pull of this queue must continue from; None when there is no reset."""
        if not self._resets:
            return None
        key = _key(topic, group)
        queues = self._resets.get(key)
        offset = None if queues is None else queues.pop(queue_id, None)
        if queues is not None and not queues:
            del self._resets[key]
        return offset

    def clone(self, source_group: str, group: str, topic: str) -> bool:
        """Copy the offsets of `source_group` in a topic to `group`; return False when it has none."""
        source = self._committed.get(_key(topic, source_group))
        if source is None:
            return False
        key = _key(topic, group)
        self._count += len(source) - len(self._committed.get(key, {}))
        self._committed[key] = dict(source)
        self.changes += 1
        return True

    def remove_group(self, group: str) -> None:
        self._remove(lambda _, of: of == group)

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda of, _: of == topic)

    def _remove(self, wanted: Callable[[str, str], bool]) -> None:
        for table in (self._committed, self._pull_offsets, self._resets):
            for key in [key for key in table if len(parts := key.split(_SEPARATOR)) == 2 and wanted(parts[0], parts[1])]:
                gone = table.pop(key)
                if table is self._committed:
                    self._count -= len(gone)
                    self.changes += 1

    # --- the whole table

    def snapshot(self) -> ConsumerOffsetManager:
        """Return a copy for the file. A thread may write it while the table changes."""
        return ConsumerOffsetManager(
            offset_table={key: dict(queues) for key, queues in self._committed.items()},
            pull_offset_table={key: dict(queues) for key, queues in self._pull_offsets.items()},
            group_topic_map=self.topics_by_group(),
            data_version=self.version,
        )

    def for_slaves(self) -> ConsumerOffsetSerializeWrapper:
        """Return the table for a slave (43), without the fields that Apache's slaves fail to read."""
        return ConsumerOffsetSerializeWrapper(offset_table=self._committed, data_version=self.version)

    def load(self, saved: ConsumerOffsetManager) -> None:
        """Load committed offsets. Like Apache's broker, drop pull offsets: pulls continue from the committed offset."""
        self._committed = {key: dict(queues) for key, queues in saved.offset_table.items()}
        self._count = sum(map(len, self._committed.values()))
        if saved.data_version is not None:
            self.version = saved.data_version


def _key(topic: str, group: str) -> str:
    return f"{topic}{_SEPARATOR}{group}"

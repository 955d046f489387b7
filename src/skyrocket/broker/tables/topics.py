"""The topics of a broker: their settings, how they are created and changed, and the version of the table.

    get(topic), require(topic)          the topic's settings
    put(config), put_all(configs)       an administrator creates or changes topics (17, 18)
    create_on_send(topic, …)            a producer sends to a topic that does not exist: create it from the default topic
    create_for_group(topic, …)          create a group's retry topic or dead-letter topic
    delete(topic)                       an administrator deletes a topic (215)

Every change gives the table a new version and calls `on_change`: the table is saved, and registered with the nameservers.

A topic that messages depend on is on disk before it counts; otherwise its messages could outlive it in a crash. Such a change is
staged:

    stage_put, stage_delete, create_on_send     the change waits, and later changes build on it
    begin_save()                                its entries go into the file
    finish_save(), fail_save()                  the change counts from now on, or is dropped

While a send's topic is staged, `create_on_send` raises TopicPendingError: the send waits. Topics that a group's next heartbeat
would create again (its retry topic) count at once and are saved soon. Until `stages` is set, every change counts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from skyrocket.broker.errors import (
    InvalidArgumentError,
    SystemTopicError,
    TableFullError,
    TopicNotFoundError,
    TopicPendingError,
)
from skyrocket.broker.limits import QUEUES_PER_TOPIC_MAX, TOPICS_MAX
from skyrocket.broker.names import name_problem
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.attributes import TOPIC_ATTRIBUTES, apply_changes
from skyrocket.broker.tables.versioned_table import VersionedTable
from skyrocket.protocol.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.sysflag import PERM_INHERIT, PERM_READ, PERM_WRITE
from skyrocket.protocol.system_names import (
    BENCHMARK_TOPIC,
    DEFAULT_TOPIC,
    HALF_TOPIC,
    MEMBER_SYNC_PREFIX,
    OFFSET_MOVED_TOPIC,
    OP_TOPIC,
    REPLY_SUFFIX,
    REVIVE_PREFIX,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
)
from skyrocket.store.table_text import TableChanges

DEAD_LETTER_QUEUES: Final = 1
_READ_WRITE = PERM_READ | PERM_WRITE
_ALL = PERM_INHERIT | _READ_WRITE
_SCHEDULE_QUEUES = 18
_REVIVE_QUEUES = 8


def system_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """Return the topics that Apache 5.5.0 creates at start. Its broker expects them in a directory that it takes over."""
    rows = [
        (SELF_TEST_TOPIC, 1, _READ_WRITE),
        (BENCHMARK_TOPIC, 1024, _READ_WRITE),
        (settings.cluster_name, 16, _ALL),
        (settings.broker_name, 1, _ALL),
        (OFFSET_MOVED_TOPIC, 1, _READ_WRITE),
        (SCHEDULE_TOPIC, _SCHEDULE_QUEUES, _READ_WRITE),
        (settings.cluster_name + REPLY_SUFFIX, 1, _READ_WRITE),
        (REVIVE_PREFIX + settings.cluster_name, _REVIVE_QUEUES, _READ_WRITE),
        (MEMBER_SYNC_PREFIX + settings.broker_name, 1, PERM_INHERIT),
        (HALF_TOPIC, 1, _READ_WRITE),
        (OP_TOPIC, 1, _READ_WRITE),
        (ROCKSDB_HALF_TOPIC, 1, _READ_WRITE),
        (ROCKSDB_OP_TOPIC, 1, _READ_WRITE),
        (TIMER_TOPIC, 1, _READ_WRITE),
    ]
    if settings.trace_topic:
        rows.append((settings.trace_topic_name, 1, _READ_WRITE))
    if settings.auto_create_topic:
        rows.append((DEFAULT_TOPIC, settings.default_topic_queues, _ALL))
    return [_config(name, queues, perm) for name, queues, perm in rows]


class TopicTable(VersionedTable[TopicConfig]):
    table_field = "topic_config_table"

    def __init__(self, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int]) -> None:
        made = {config.topic_name: config for config in system_topics(settings())}
        super().__init__(made, settings, wall_ms)
        self._system = SYSTEM_TOPICS | made.keys()
        self.on_set: Callable[[Mapping[str, TopicConfig | None]], None] = _ignore  # called with changes that were not copied
        self.stages = False  # somebody saves the table, so changes may wait for that
        self._staged: dict[str, TopicConfig | None] = {}  # changes that wait for a save; None: the topic is deleted
        self._saving: dict[str, TopicConfig | None] = {}  # changes that are being saved
        self._saved_version: tuple[DataVersion, DataVersion] | None = None  # when that save began: of the table, and in the file

    # --- lookups

    def require(self, topic: str) -> TopicConfig:
        """Return the settings of a topic; raise TopicNotFoundError when it does not exist."""
        config = self._configs.get(topic)
        if config is None:
            raise TopicNotFoundError(f"Topic '{topic[:160]}' does not exist.")
        return config

    @property
    def system_names(self) -> frozenset[str]:
        return self._system

    def is_system(self, topic: str) -> bool:
        return topic in self._system or topic.startswith(SYSTEM_TOPIC_PREFIX)

    def is_order(self, topic: str) -> bool:
        config = self._configs.get(topic)
        return config is not None and config.order

    def snapshot(self) -> TopicConfigSerializeWrapper:
        """Return the whole table, for the file and for clients."""
        return TopicConfigSerializeWrapper(topic_config_table=dict(self._configs), data_version=self.version)

    # --- changes by an administrator

    def put(self, config: TopicConfig) -> bool:
        """Create or change a topic; return False when nothing changes.

        `config.attributes` holds changes (`+name`, `-name`), not values.
        """
        return self.put_all([config])

    def put_all(self, configs: Iterable[TopicConfig]) -> bool:
        """Create or change all topics, or none when one of them is invalid."""
        return self._change(self._plan_put(configs))

    def stage_put(self, configs: Iterable[TopicConfig]) -> bool:
        """Like `put_all`, with effect from when the change is on disk."""
        return self._stage(self._plan_put(configs))

    def _plan_put(self, configs: Iterable[TopicConfig]) -> dict[str, TopicConfig | None]:
        wanted: dict[str, TopicConfig | None] = {}
        for config in configs:
            self._check(config)
            known = self._planned(config.topic_name)
            attributes = apply_changes(TOPIC_ATTRIBUTES, None if known is None else known.attributes, config.attributes)
            after = replace(config, attributes=attributes)
            if after != known:
                wanted[config.topic_name] = after
        self._check_room(len(wanted.keys() - self._configs.keys()))
        return wanted

    def delete(self, topic: str) -> bool:
        """Delete a topic; return False when it does not exist. Raise SystemTopicError for a system topic."""
        return self._change(self._plan_delete(topic))

    def stage_delete(self, topic: str) -> bool:
        """Like `delete`, with effect from when the change is on disk."""
        return self._stage(self._plan_delete(topic))

    def _plan_delete(self, topic: str) -> dict[str, TopicConfig | None]:
        self.check_not_system(topic)
        return {} if self._planned(topic) is None else {topic: None}

    def _check(self, config: TopicConfig) -> None:
        name = config.topic_name
        if problem := name_problem(name):
            raise InvalidArgumentError(f"The topic's name {problem}: '{name[:160]}'.")
        self.check_not_system(name)
        for queues in (config.read_queue_nums, config.write_queue_nums):
            if not 0 <= queues <= QUEUES_PER_TOPIC_MAX:
                raise InvalidArgumentError(f"Topic '{name}' cannot have {queues} queues, only 0 to {QUEUES_PER_TOPIC_MAX}.")
        if not 0 <= config.perm <= _ALL:
            raise InvalidArgumentError(
                f"Topic '{name}' cannot have permission {config.perm}: it is a sum of 4 (read), 2 (write), 1 (inherit)."
            )

    def check_not_system(self, topic: str) -> None:
        if self.is_system(topic):
            raise SystemTopicError(f"Topic '{topic}' is the system's: it cannot be changed.")

    # --- changes by clients

    def create_on_send(self, topic: str, default_topic: str, queues: int, peer: str, sys_flag: int = 0) -> TopicConfig | None:  # noqa: ARG002
        """Return the topic; create it from the default topic if the settings allow that, else return None.

        Raise TopicPendingError when the topic is not on disk yet: try again after the next save.
        """
        known = self._configs.get(topic)
        if known is not None:
            return known
        self._check_not_pending(topic)
        model = self._configs.get(default_topic)
        if model is None or not model.perm & PERM_INHERIT or name_problem(topic) or not self._room:
            return None
        if default_topic == DEFAULT_TOPIC and not self._settings().auto_create_topic:
            return None
        made = _config(topic, max(0, min(queues, model.write_queue_nums)), model.perm & ~PERM_INHERIT)
        made.topic_sys_flag = sys_flag
        made.topic_filter_type = model.topic_filter_type
        return self._add_durably(made)

    def create_for_group(self, topic: str, queues: int, *, order: bool = False, sys_flag: int = 0) -> TopicConfig:
        """Create a group's retry topic for a consumer. An existing topic only gets the new value of `order`.

        It counts at once: should a crash come before the save, the consumer's next heartbeat creates it again.
        """
        known = self._configs.get(topic)
        if known is not None:
            if known.order == order:
                return known
            return self._add(replace(known, order=order))
        if problem := name_problem(topic):
            raise InvalidArgumentError(f"The topic's name {problem}: '{topic[:160]}'.")
        self._check_room(1)
        made = _config(topic, max(0, min(queues, QUEUES_PER_TOPIC_MAX)), _READ_WRITE)
        made.topic_sys_flag = sys_flag
        made.order = order
        return self._add(made)

    def create_durably(self, topic: str, queues: int, *, sys_flag: int = 0) -> TopicConfig:
        """Create a group's topic for a message that is about to be stored in it.

        Raise TopicPendingError when the topic is not on disk yet: try again after the next save. Perhaps nobody would create it
        again after a crash, and its messages could not be found.
        """
        known = self._configs.get(topic)
        if known is not None:
            return known
        self._check_not_pending(topic)
        if problem := name_problem(topic):
            raise InvalidArgumentError(f"The topic's name {problem}: '{topic[:160]}'.")
        self._check_room(1)
        made = _config(topic, max(0, min(queues, QUEUES_PER_TOPIC_MAX)), _READ_WRITE)
        made.topic_sys_flag = sys_flag
        return self._add_durably(made)

    def _check_not_pending(self, topic: str) -> None:
        if self._planned(topic) is not None:
            raise TopicPendingError(f"Topic '{topic}' is being created. Send again.")

    def set_ordered(self, topics: Iterable[str]) -> bool:
        """Mark the topics that the nameserver's order configuration names as ordered; return whether any topic changed."""
        found = [config for topic in topics if (config := self._configs.get(topic)) is not None and not config.order]
        return self._change({config.topic_name: replace(config, order=True) for config in found})

    # --- the whole table

    def load(self, saved: TopicConfigSerializeWrapper) -> None:
        """Load the file, which may also change system topics. `on_change` is not called.

        Apache allows longer names than `put` does: they are loaded too. A name that would lead out of its directory is skipped.
        """
        for name, config in saved.topic_config_table.items():
            if _is_safe(name):
                self._configs[name] = replace(config, topic_name=name)
        default = self._configs.get(DEFAULT_TOPIC)
        if default is not None and not self._settings().auto_create_topic:
            self._configs[DEFAULT_TOPIC] = replace(default, perm=default.perm & ~PERM_INHERIT)
        self.version = saved.data_version
        self._unsaved = dict.fromkeys(self._configs)

    def follow(self, master: TopicConfigSerializeWrapper) -> list[str]:
        """Replace the table by that of the master, which a slave copies. Return the topics that are gone.

        A name that would lead out of its directory is skipped. Raise TableFullError when the master has too many topics.
        """
        table = master.topic_config_table
        if len(table) > TOPICS_MAX:
            raise TableFullError(f"The master has {len(table)} topics; {TOPICS_MAX} are allowed.")
        wanted = {name: replace(config, topic_name=name) for name, config in table.items() if _is_safe(name)}
        return self._follow(wanted, master.data_version)

    def adopt(self, changes: Mapping[str, TopicConfig | None], queues: Mapping[str, int]) -> list[str]:
        """Make changes of the last leader, and add topics that have messages here and no settings. Return what was added.

        A node of a DLedger group calls it when it begins to lead: it has every message, but the table of the last leader may not
        have reached it. `queues` has the number of queues in which each topic has messages. Topics that are added for it get
        at least as many as a send creates: messages for the others may wait in the topics of delays and transactions.
        """
        least = self._settings().default_topic_queues
        found = {name: _config(name, max(count, least), _READ_WRITE) for name, count in queues.items() if name not in self}
        for name, config in changes.items():
            if config is not None:
                found[name] = replace(config, topic_name=name)
            else:
                found.pop(name, None)  # deleted; of a topic that is still in the table, the deletion is lost, as at Apache's
        safe = {name: config for name, config in found.items() if _is_safe(name) and name not in self._system}
        added = [name for name in safe if name not in self][: max(0, self._room)]
        self._change({name: config for name, config in safe.items() if name in self or name in added})
        return added

    @property
    def _room(self) -> int:
        return TOPICS_MAX - len(self._configs) - len(self._staged) - len(self._saving)

    def _check_room(self, more: int) -> None:
        if more > self._room:
            raise TableFullError(f"There are {len(self._configs)} topics; {TOPICS_MAX} are allowed.")

    def _add(self, config: TopicConfig) -> TopicConfig:
        self._change({config.topic_name: config})
        return config

    def _add_durably(self, config: TopicConfig) -> TopicConfig:
        self._stage({config.topic_name: config})
        if self.stages:
            self._check_not_pending(config.topic_name)
        return config

    def _change(self, changes: Mapping[str, TopicConfig | None]) -> bool:
        """Make changes that count at once; return whether there are any."""
        for name, config in changes.items():
            if config is None:
                self._configs.pop(name, None)
            else:
                self._configs[name] = config
        if changes:
            self._set_changed(*changes)
            self.on_set(changes)
        return bool(changes)

    # --- changes that wait for a save

    def _planned(self, topic: str) -> TopicConfig | None:
        """Return the topic as it will be when the changes so far are on disk."""
        for changes in (self._staged, self._saving):
            if topic in changes:
                return changes[topic]
        return self._configs.get(topic)

    def _stage(self, changes: Mapping[str, TopicConfig | None]) -> bool:
        if not self.stages:
            return self._change(changes)
        self._staged.update(changes)
        return bool(changes)

    def begin_save(self) -> tuple[TopicConfigSerializeWrapper, TableChanges]:
        """Return the file's content without its table, and the entries that are staged."""
        assert not self._saving, "one save at a time"
        self._saving, self._staged = self._staged, {}
        in_file = self.version.next(0, self._wall_ms()) if self._saving else self.version
        self._saved_version = (self.version, in_file)
        changes = {self.table_field: dict(self._saving)} if self._saving else {}
        return TopicConfigSerializeWrapper(data_version=in_file), changes

    def finish_save(self) -> None:
        """Make the changes count that the save contained."""
        assert self._saved_version is not None
        changes, self._saving = self._saving, {}
        if not changes:
            return
        for name, config in changes.items():
            if config is None:
                self._configs.pop(name, None)
            else:
                self._configs[name] = config
        at_begin, in_file = self._saved_version
        # A nameserver skips a version that it knows. So this one must be new if the table has changed since the save began.
        self.version = in_file if self.version == at_begin else self.version.next(0, self._wall_ms())
        self._notify()
        self.on_set(changes)

    def fail_save(self) -> None:
        """Drop all staged changes: those that the save contained, and those that build on them."""
        dropped = self._saving | self._staged
        self._saving, self._staged = {}, {}
        self._unsaved.update(dict.fromkeys(dropped))


def _ignore(_changes: Mapping[str, TopicConfig | None]) -> None:
    """Only a DLedger group needs to know who has changed a topic."""


def _is_safe(name: str) -> bool:
    """Whether a topic's name stays within its directory."""
    return "/" not in name and name not in ("", ".", "..")


def _config(name: str, queues: int, perm: int) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)

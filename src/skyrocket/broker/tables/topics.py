"""The topics of a broker: their settings, how they are created and changed, and the version of the table.

    get(topic), require(topic)          the topic's settings
    put(config), put_all(configs)       an administrator creates or changes topics (17, 18)
    create_on_send(topic, …)            a producer sends to a topic that does not exist: create it from the default topic
    create_for_group(topic, …)          create a group's retry topic or dead-letter topic
    delete(topic)                       an administrator deletes a topic (215)

Every change gives the table a new version and calls `on_change`: the table is saved, and registered with the nameservers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from skyrocket.broker.errors import InvalidArgumentError, SystemTopicError, TableFullError, TopicNotFoundError
from skyrocket.broker.limits import QUEUES_PER_TOPIC_MAX, TOPICS_MAX
from skyrocket.broker.names import name_problem
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.attributes import TOPIC_ATTRIBUTES, apply_changes
from skyrocket.broker.tables.versioned_table import VersionedTable
from skyrocket.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
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
    TRACE_TOPIC,
)

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
        rows.append((TRACE_TOPIC, 1, _READ_WRITE))
    if settings.auto_create_topic:
        rows.append((DEFAULT_TOPIC, settings.default_topic_queues, _ALL))
    return [_config(name, queues, perm) for name, queues, perm in rows]


class TopicTable(VersionedTable[TopicConfig]):
    def __init__(self, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int]) -> None:
        made = {config.topic_name: config for config in system_topics(settings())}
        super().__init__(made, settings, wall_ms)
        self._system = SYSTEM_TOPICS | made.keys()

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
        wanted: dict[str, TopicConfig] = {}
        for config in configs:
            self._check(config)
            known = self._configs.get(config.topic_name)
            attributes = apply_changes(TOPIC_ATTRIBUTES, None if known is None else known.attributes, config.attributes)
            after = replace(config, attributes=attributes)
            if after != known:
                wanted[config.topic_name] = after
        self._check_room(len(wanted.keys() - self._configs.keys()))
        if not wanted:
            return False
        self._configs.update(wanted)
        self._set_changed()
        return True

    def delete(self, topic: str) -> bool:
        """Delete a topic; return False when it does not exist. Raise SystemTopicError for a system topic."""
        self.check_not_system(topic)
        if self._configs.pop(topic, None) is None:
            return False
        self._set_changed()
        return True

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
        """Return the topic; create it from the default topic if the settings allow that, else return None."""
        known = self._configs.get(topic)
        if known is not None:
            return known
        model = self._configs.get(default_topic)
        if model is None or not model.perm & PERM_INHERIT or name_problem(topic) or len(self._configs) >= TOPICS_MAX:
            return None
        if default_topic == DEFAULT_TOPIC and not self._settings().auto_create_topic:
            return None
        made = _config(topic, max(0, min(queues, model.write_queue_nums)), model.perm & ~PERM_INHERIT)
        made.topic_sys_flag = sys_flag
        made.topic_filter_type = model.topic_filter_type
        return self._add(made)

    def create_for_group(self, topic: str, queues: int, *, order: bool = False, sys_flag: int = 0) -> TopicConfig:
        """Create a group's own topic, such as its retry topic. An existing topic only gets the new value of `order`."""
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

    def set_ordered(self, topics: Iterable[str]) -> bool:
        """Mark the topics that the nameserver's order configuration names as ordered; return whether any topic changed."""
        found = [config for topic in topics if (config := self._configs.get(topic)) is not None and not config.order]
        for config in found:
            self._configs[config.topic_name] = replace(config, order=True)
        if found:
            self._set_changed()
        return bool(found)

    # --- the whole table

    def load(self, saved: TopicConfigSerializeWrapper) -> None:
        """Load the file, which may also change system topics. `on_change` is not called.

        Apache allows longer names than `put` does: they are loaded too. A name that would lead out of its directory is skipped.
        """
        for name, config in saved.topic_config_table.items():
            if "/" not in name and name not in ("", ".", ".."):
                self._configs[name] = replace(config, topic_name=name)
        default = self._configs.get(DEFAULT_TOPIC)
        if default is not None and not self._settings().auto_create_topic:
            self._configs[DEFAULT_TOPIC] = replace(default, perm=default.perm & ~PERM_INHERIT)
        self.version = saved.data_version

    def _check_room(self, more: int) -> None:
        if len(self._configs) + more > TOPICS_MAX:
            raise TableFullError(f"There are {len(self._configs)} topics; {TOPICS_MAX} are allowed.")

    def _add(self, config: TopicConfig) -> TopicConfig:
        self._configs[config.topic_name] = config
        self._set_changed()
        return config


def _config(name: str, queues: int, perm: int) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)

"""The subscription groups of a broker: their settings, and the topics that an administrator forbade them.

    get(group), require(group)          the group's settings
    for_consumer(group)                 the group's settings for a consumer; creates the group if the settings allow that
    put(config), put_all(configs)       an administrator creates or changes groups (200, 225)
    forbid(group, topic, …)             an administrator forbids a group a topic, or allows it again (353)
    delete(group)                       an administrator deletes a group (207)

Every change gives the table a new version and calls `on_change`, which saves the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from skyrocket.broker.errors import GroupNotFoundError, InvalidArgumentError, TableFullError
from skyrocket.broker.limits import GROUP_NAME_LENGTH_MAX, GROUPS_MAX, QUEUES_PER_TOPIC_MAX
from skyrocket.broker.names import name_problem
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.attributes import GROUP_ATTRIBUTES, apply_changes
from skyrocket.broker.tables.versioned_table import VersionedTable
from skyrocket.protocol.bodies import SubscriptionGroupConfig, SubscriptionGroupWrapper
from skyrocket.protocol.system_names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS
from skyrocket.store.table_text import TableChanges

_READ_FORBIDDEN = 1 << 2  # the bit of a topic's read permission; Apache uses no other


def group_problem(group: str) -> str | None:
    """Say what is wrong with a group's name; None when it is valid."""
    if len(group) > GROUP_NAME_LENGTH_MAX:
        return f"has {len(group)} characters; {GROUP_NAME_LENGTH_MAX} are allowed"
    return name_problem(group)


class SubscriptionGroupTable(VersionedTable[SubscriptionGroupConfig]):
    table_field = "subscription_group_table"

    def __init__(self, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int]) -> None:
        super().__init__({name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}, settings, wall_ms)
        self._forbidden: dict[str, dict[str, int]] = {}  # group -> topic -> bits
        self._unsaved_forbidden: dict[str, None] = {}

    # --- lookups

    def require(self, group: str) -> SubscriptionGroupConfig:
        """Return the settings of a group; raise GroupNotFoundError when it does not exist."""
        config = self._configs.get(group)
        if config is None:
            raise GroupNotFoundError(f"There is no group '{group[:160]}'.")
        return config

    def for_consumer(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the group; create it if the settings allow that. None when it does not exist and cannot be created."""
        known = self._configs.get(group)
        if known is not None:
            return known
        is_system = group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
        if not is_system and not self._settings().auto_create_group:
            return None
        if group_problem(group) or len(self._configs) >= GROUPS_MAX:
            return None
        made = self._configs[group] = SubscriptionGroupConfig(group_name=group)
        self._set_changed(group)
        return made

    def snapshot(self, groups: Iterable[str] | None = None) -> SubscriptionGroupWrapper:
        """Return all groups, or the named ones, for the file and for clients."""
        names = list(self._configs if groups is None else groups)
        forbidden = (
            self._forbidden if groups is None else {name: self._forbidden[name] for name in names if name in self._forbidden}
        )
        return SubscriptionGroupWrapper(
            subscription_group_table={name: self._configs[name] for name in names},
            forbidden_table={name: dict(topics) for name, topics in forbidden.items()},
            data_version=self.version,
        )

    # --- changes by an administrator

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Create or change a group. `config.attributes` holds changes (`+name`, `-name`), not values."""
        self.put_all([config])

    def put_all(self, configs: Iterable[SubscriptionGroupConfig]) -> None:
        """Create or change all groups, or none when one of them is invalid."""
        wanted: dict[str, SubscriptionGroupConfig] = {}
        for config in configs:
            name = config.group_name
            if problem := group_problem(name):
                raise InvalidArgumentError(f"The group's name {problem}: '{name[:160]}'.")
            if not 0 <= config.retry_queue_nums <= QUEUES_PER_TOPIC_MAX:
                raise InvalidArgumentError(f"Group '{name}' cannot have {config.retry_queue_nums} retry queues.")
            known = self._configs.get(name)
            attributes = apply_changes(GROUP_ATTRIBUTES, None if known is None else known.attributes, config.attributes)
            wanted[name] = replace(config, attributes=attributes)
        if len(self._configs.keys() | wanted.keys()) > GROUPS_MAX:
            raise TableFullError(f"There are {len(self._configs)} groups; {GROUPS_MAX} are allowed.")
        if wanted:
            self._configs.update(wanted)
            self._set_changed(*wanted)

    def stop(self, group: str) -> None:
        """Disable consumption for a group, until an administrator enables it again."""
        self._configs[group] = replace(self._configs[group], consume_enable=False)
        self._set_changed(group)

    def delete(self, group: str) -> bool:
        """Delete a group; return False when it does not exist."""
        known = self._configs.pop(group, None)
        if self._forbidden.pop(group, None) is None and known is None:
            return False
        self._unsaved_forbidden[group] = None
        self._set_changed(group)
        return known is not None

    # --- forbidden topics

    def is_forbidden(self, group: str, topic: str) -> bool:
        topics = self._forbidden.get(group)
        return topics is not None and bool(topics.get(topic, 0) & _READ_FORBIDDEN)

    def forbid(self, group: str, topic: str, *, forbidden: bool) -> None:
        """Forbid a group a topic, or allow it again.

        When Apache's broker allows one topic again, it allows the group all topics. Here the other topics stay forbidden.
        """
        if forbidden == self.is_forbidden(group, topic):
            return
        if forbidden:
            self.require(group)
            if problem := name_problem(topic):
                raise InvalidArgumentError(f"The topic's name {problem}: '{topic[:160]}'.")
            topics = self._forbidden.setdefault(group, {})
            topics[topic] = topics.get(topic, 0) | _READ_FORBIDDEN
        else:
            topics = self._forbidden[group]
            topics[topic] &= ~_READ_FORBIDDEN
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._forbidden[group]
        self._unsaved_forbidden[group] = None
        self._set_changed()

    # --- the whole table

    def load(self, saved: SubscriptionGroupWrapper) -> None:
        """Load the file, which may also change system groups. `on_change` is not called."""
        for name, config in saved.subscription_group_table.items():
            self._configs[name] = replace(config, group_name=name)
        self._forbidden.update({name: dict(topics) for name, topics in saved.forbidden_table.items()})
        self.version = saved.data_version
        self._unsaved = dict.fromkeys(self._configs)
        self._unsaved_forbidden = dict.fromkeys(self._forbidden)

    def follow(self, master: SubscriptionGroupWrapper) -> None:
        """Replace the table by that of the master, which a slave copies. Raise TableFullError when it has too many groups."""
        table = master.subscription_group_table
        if len(table) > GROUPS_MAX:
            raise TableFullError(f"The master has {len(table)} groups; {GROUPS_MAX} are allowed.")
        forbidden = {name: dict(topics) for name, topics in master.forbidden_table.items()}
        changed = [name for name in forbidden.keys() | self._forbidden.keys() if forbidden.get(name) != self._forbidden.get(name)]
        self._forbidden = forbidden
        self._unsaved_forbidden.update(dict.fromkeys(changed))
        if changed:
            self._notify()
        self._follow({name: replace(config, group_name=name) for name, config in table.items()}, master.data_version)

    def rest_of_file(self) -> SubscriptionGroupWrapper:
        """Return the file's content without its tables."""
        return SubscriptionGroupWrapper(data_version=self.version)

    def take_changes(self, most: int) -> TableChanges:
        changes = super().take_changes(most)
        if not changes and self._unsaved_forbidden:
            names, self._unsaved_forbidden = self._unsaved_forbidden, {}
            changes = {
                "forbidden_table": {name: dict(self._forbidden[name]) if name in self._forbidden else None for name in names}
            }
        return changes

    def put_back(self, changes: TableChanges) -> None:
        super().put_back(changes)
        self._unsaved_forbidden.update(dict.fromkeys(changes.get("forbidden_table", ())))

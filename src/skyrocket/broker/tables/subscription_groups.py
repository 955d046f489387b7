"""The subscription groups of a broker: their settings, and which topics an administrator forbade them.

    get(group)                          its settings
    for_consumer(group)                 the same for someone who consumes: the group is made if that is allowed
    put(config), put_all(configs)       an administrator makes or changes them (200, 225)
    forbid(group, topic, …)             (353)
    delete(group)                       (207)

Every change gives the table a new version, and is told to `on_change`: the table is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from skyrocket.broker.errors import GroupNotFoundError, InvalidArgumentError, TableFullError
from skyrocket.broker.limits import GROUP_NAME_LENGTH_MAX, GROUPS_MAX, QUEUES_PER_TOPIC_MAX
from skyrocket.broker.names import name_problem
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.attributes import GROUP_ATTRIBUTES, changed
from skyrocket.broker.tables.versioned_table import VersionedTable
from skyrocket.protocol.bodies import SubscriptionGroupConfig, SubscriptionGroupWrapper
from skyrocket.protocol.system_names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS

_READ_FORBIDDEN = 1 << 2  # the bit of a topic's read permission, and the only one that is used


def group_problem(group: str) -> str | None:
    """What is wrong with a group's name; None when it may be used."""
    if len(group) > GROUP_NAME_LENGTH_MAX:
        return f"has {len(group)} characters; {GROUP_NAME_LENGTH_MAX} are allowed"
    return name_problem(group)


class SubscriptionGroupTable(VersionedTable[SubscriptionGroupConfig]):
    def __init__(self, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int]) -> None:
        super().__init__({name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}, settings, wall_ms)
        self._forbidden: dict[str, dict[str, int]] = {}  # group -> topic -> bits

    # --- looking

    def require(self, group: str) -> SubscriptionGroupConfig:
        """Return the settings of a group; raise GroupNotFoundError when it does not exist."""
        config = self._configs.get(group)
        if config is None:
            raise GroupNotFoundError(f"There is no group '{group[:160]}'.")
        return config

    def for_consumer(self, group: str) -> SubscriptionGroupConfig | None:
        """The group, made if that is allowed; None when there is none."""
        known = self._configs.get(group)
        if known is not None:
            return known
        is_system = group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
        if not is_system and not self._settings().auto_create_group:
            return None
        if group_problem(group) or len(self._configs) >= GROUPS_MAX:
            return None
        made = self._configs[group] = SubscriptionGroupConfig(group_name=group)
        self._set_changed()
        return made

    def snapshot(self, groups: Iterable[str] | None = None) -> SubscriptionGroupWrapper:
        """For the file, and for whoever asks for all or for some."""
        names = list(self._configs if groups is None else groups)
        forbidden = (
            self._forbidden if groups is None else {name: self._forbidden[name] for name in names if name in self._forbidden}
        )
        return SubscriptionGroupWrapper(
            subscription_group_table={name: self._configs[name] for name in names},
            forbidden_table={name: dict(topics) for name, topics in forbidden.items()},
            data_version=self.version,
        )

    # --- by an administrator

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Make a group or change it; `attributes` are changes to the attributes."""
        self.put_all([config])

    def put_all(self, configs: Iterable[SubscriptionGroupConfig]) -> None:
        """All of them or, when one is refused, none."""
        wanted: dict[str, SubscriptionGroupConfig] = {}
        for config in configs:
            name = config.group_name
            if problem := group_problem(name):
                raise InvalidArgumentError(f"The group's name {problem}: '{name[:160]}'.")
            if not 0 <= config.retry_queue_nums <= QUEUES_PER_TOPIC_MAX:
                raise InvalidArgumentError(f"Group '{name}' cannot have {config.retry_queue_nums} retry queues.")
            known = self._configs.get(name)
            attributes = changed(GROUP_ATTRIBUTES, None if known is None else known.attributes, config.attributes)
            wanted[name] = replace(config, attributes=attributes)
        if len(self._configs.keys() | wanted.keys()) > GROUPS_MAX:
            raise TableFullError(f"There are {len(self._configs)} groups; {GROUPS_MAX} are allowed.")
        if wanted:
            self._configs.update(wanted)
            self._set_changed()

    def stop(self, group: str) -> None:
        """It may not consume, until an administrator allows it again."""
        self._configs[group] = replace(self._configs[group], consume_enable=False)
        self._set_changed()

    def delete(self, group: str) -> bool:
        """False when there is no such group."""
        known = self._configs.pop(group, None)
        if self._forbidden.pop(group, None) is None and known is None:
            return False
        self._set_changed()
        return known is not None

    # --- forbidden topics

    def is_forbidden(self, group: str, topic: str) -> bool:
        topics = self._forbidden.get(group)
        return topics is not None and bool(topics.get(topic, 0) & _READ_FORBIDDEN)

    def forbid(self, group: str, topic: str, *, forbidden: bool) -> None:
        """Apache allows a group all topics when it is allowed one again; here the others stay forbidden."""
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
        self._set_changed()

    # --- as a whole

    def load(self, saved: SubscriptionGroupWrapper) -> None:
        """What the file says counts, also about the system's groups; nobody is told."""
        for name, config in saved.subscription_group_table.items():
            self._configs[name] = replace(config, group_name=name)
        self._forbidden.update({name: dict(topics) for name, topics in saved.forbidden_table.items()})
        self.version = saved.data_version

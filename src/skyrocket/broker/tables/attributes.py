"""Attributes of topics and groups: the settings that RocketMQ 5.x added, as text under a name.

A request changes attributes with `+name=value` (set) and `-name` (remove). Names and values are Apache's. A value that this
store cannot honour is refused, so that a topic never claims, for example, to be compacted when it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skyrocket.broker.errors import AttributeChangeError, UnsupportedAttributeError
from skyrocket.broker.limits import ATTRIBUTES_LENGTH_MAX

_LONG_MAX = 2**63 - 1
_BOOLEANS = frozenset({"true", "false"})
MESSAGE_TYPE: Final = "message.type"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One row: the values that an attribute may have. Without `values` and `between`, any text is valid."""

    values: frozenset[str] = frozenset()
    between: tuple[int, int] | None = None
    changeable: bool = True  # once the topic exists
    not_here: frozenset[str] = field(default=frozenset())  # values that only Apache's store supports

    def problem(self, value: str) -> str | None:
        """Say what is wrong with a value; None when it is valid."""
        if self.values and value not in self.values:
            return f"must be one of {', '.join(sorted(self.values))}, not '{value[:64]}'"
        if self.between is not None:
            least, most = self.between
            number = int(value) if value.removeprefix("-").isdecimal() and len(value) < 20 else None
            if number is None or not least <= number <= most:
                return f"must be a number from {least} to {most}, not '{value[:64]}'"
        return None


Attributes = Mapping[str, Attribute]

TOPIC_ATTRIBUTES: Final[Attributes] = {
    "cleanup.policy": Attribute(frozenset({"DELETE", "COMPACTION"}), changeable=False, not_here=frozenset({"COMPACTION"})),
    "queue.type": Attribute(frozenset({"SimpleCQ", "BatchCQ"}), changeable=False, not_here=frozenset({"BatchCQ"})),
    MESSAGE_TYPE: Attribute(
        frozenset({"UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL"}),
        not_here=frozenset({"MIXED"}),  # Apache's broker refuses it too, unless enableMixedMessageType is set
    ),
    "lite.topic.expiration": Attribute(between=(-1, 43_200)),
    "reserve.time": Attribute(between=(-1, _LONG_MAX)),
}

GROUP_ATTRIBUTES: Final[Attributes] = {
    "priority.factor": Attribute(between=(0, 100)),
    "lite.bind.topic": Attribute(),
    "lite.sub.client.max.event.cnt": Attribute(between=(10, _LONG_MAX)),
    "lite.sub.client.quota": Attribute(between=(-1, _LONG_MAX)),
    "lite.sub.model": Attribute(frozenset({"Shared", "Exclusive"})),
    "lite.sub.reset.offset.exclusive": Attribute(_BOOLEANS),
    "lite.sub.reset.offset.unsubscribe": Attribute(_BOOLEANS),
    "lite.sub.wildcard": Attribute(),
}


def parse_changes(text: str | None) -> dict[str, str]:
    """Parse `+a=1,-b` into {"+a": "1", "-b": ""}; raise AttributeChangeError for any other syntax."""
    changes: dict[str, str] = {}
    if not text:
        return changes
    if len(text) > ATTRIBUTES_LENGTH_MAX:
        raise AttributeChangeError(f"The attributes have {len(text)} characters; {ATTRIBUTES_LENGTH_MAX} are allowed.")
    for part in text.split(","):
        name, is_set, value = part.partition("=")
        if not name.startswith("+" if is_set else "-"):
            raise AttributeChangeError(f"An attribute is changed by '+name=value' or '-name', not by '{part[:64]}'.")
        if name in changes:
            raise AttributeChangeError(f"Attribute '{name[1:65]}' is changed twice.")
        changes[name] = value
    return changes


def apply_changes(known: Attributes, current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes after `changes`. `current` is None for a topic or group that is being created.

    Raise AttributeChangeError, or UnsupportedAttributeError, when a change is not allowed.
    """
    after = dict(current or {})
    for change, value in changes.items():
        sign, name = change[:1], change[1:]
        attribute = known.get(name)
        if sign not in ("+", "-"):
            raise AttributeChangeError(f"Attribute '{change[:64]}' is changed with a + or - before its name.")
        if attribute is None:
            raise AttributeChangeError(f"There is no attribute '{name[:64]}'.")
        if current is not None and not attribute.changeable:
            raise AttributeChangeError(f"Attribute '{name}' cannot be changed.")
        if sign == "-":
            if name not in after:
                raise AttributeChangeError(f"Attribute '{name}' is not set.")
            del after[name]
        elif value in attribute.not_here:
            raise UnsupportedAttributeError(f"Attribute '{name}' cannot be '{value}' with this broker.")
        elif problem := attribute.problem(value):
            raise AttributeChangeError(f"Attribute '{name}' {problem}.")
        else:
            after[name] = value
    return after

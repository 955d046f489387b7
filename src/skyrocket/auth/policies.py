"""The rules of a user: which actions on which resources are allowed or denied, and from where.

A user has up to two policies. `Custom` counts first. `Default` counts only where no entry of `Custom` matches.

    resource text      means                        how specific, from most to least
    Topic:orders       this topic                   LITERAL
    Topic:ord*         topics that begin with ord   PREFIXED; a longer prefix is more specific
    Topic:*            every topic                  ANY of a kind
    *                  everything                   ANY of all kinds
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from skyrocket.auth.errors import AccessError
from skyrocket.auth.source_addresses import parse_network
from skyrocket.auth.users import find_word
from skyrocket.protocol.bodies import PolicyEntryInfo
from skyrocket.protocol.permissions import Action

ENTRIES_MAX: Final = 10_000  # of one user
RESOURCE_LENGTH_MAX: Final = 1024
SOURCES_MAX: Final = 1_000  # of one entry
EVERYTHING: Final = "*"


class ResourceKind(StrEnum):
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(IntEnum):
    """How a resource's text selects names. A smaller number is more specific."""

    LITERAL = 1
    PREFIXED = 2
    ANY = 3


class PolicyType(StrEnum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


class Effect(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class ActionName(StrEnum):
    """The actions that an entry can name. `Any` is a word of Apache's that no entry may have."""

    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


_EVERY_ACTION: Final = ~Action(0)
_MASKS: Final[dict[ActionName, Action]] = {
    name: Action[name.name] for name in ActionName if name not in (ActionName.ALL, ActionName.ANY)
}


class ResourcePattern(NamedTuple):
    """A resource's text, parsed. Two are equal when they select the same names."""

    kind: ResourceKind
    pattern: Pattern
    name: str = ""  # the name or the prefix

    def matches(self, kind: ResourceKind, name: str | None) -> bool:
        """Whether this selects a resource. The name None stands for every resource of the kind."""
        if self.kind is not ResourceKind.ANY and self.kind is not kind:
            return False
        if self.pattern is Pattern.ANY or name is None:
            return self.pattern is Pattern.ANY
        return name == self.name if self.pattern is Pattern.LITERAL else name.startswith(self.name)

    @property
    def rank(self) -> tuple[bool, Pattern, int]:
        """The most specific resource has the smallest rank."""
        return self.kind is ResourceKind.ANY, self.pattern, -len(self.name)

    def __str__(self) -> str:
        if self.kind is ResourceKind.ANY and self.pattern is Pattern.ANY:
            return EVERYTHING
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else EVERYTHING}"


def parse_resource(text: str | None) -> ResourcePattern | None:
    """Parse a resource's text; None when it names no resource."""
    if text == EVERYTHING:
        return ResourcePattern(ResourceKind.ANY, Pattern.ANY)
    kind_text, separator, name = (text or "")[: RESOURCE_LENGTH_MAX + 1].partition(":")
    kind = find_word(ResourceKind, kind_text)
    if kind is None or not separator or len(text or "") > RESOURCE_LENGTH_MAX:
        return None
    prefix, star, _ = name.partition(EVERYTHING)
    if not star:
        return ResourcePattern(kind, Pattern.LITERAL, name)
    return ResourcePattern(kind, Pattern.PREFIXED, prefix) if prefix else ResourcePattern(kind, Pattern.ANY)


@dataclass(frozen=True)
class Entry:
    """One rule: an effect for actions on a resource, for clients at some addresses."""

    resource: ResourcePattern
    actions: tuple[ActionName, ...]
    effect: Effect
    sources: tuple[str, ...] = ()  # addresses and networks; none: from everywhere

    @cached_property
    def mask(self) -> Action:
        if ActionName.ALL in self.actions:
            return _EVERY_ACTION
        mask = Action(0)
        for name in self.actions:
            mask |= _MASKS[name]
        return mask

    def to_info(self) -> PolicyEntryInfo:
        sources = list(self.sources) or None
        return PolicyEntryInfo(
            resource=str(self.resource), actions=[*map(str, self.actions)], source_ips=sources, decision=str(self.effect)
        )


def read_entry(info: PolicyEntryInfo) -> Entry:
    """Read an entry from a request or a file. Raise AccessError, in Apache's words, for one that means nothing."""
    resource = parse_resource(info.resource)
    if resource is None:
        raise AccessError("The resource is null.")
    actions = tuple(name for text in info.actions or () if (name := find_word(ActionName, text)) is not None)
    if not actions:
        raise AccessError("The actions is empty.")
    if ActionName.ANY in actions:
        raise AccessError("The actions can not be Any.")
    effect = find_word(Effect, info.decision)
    if effect is None:
        raise AccessError("The decision is null or illegal.")
    sources = tuple(filter(None, info.source_ips or ()))
    if len(sources) > SOURCES_MAX or any(parse_network(source) is None for source in sources):
        raise AccessError("The source ip is invalid.")
    return Entry(resource, tuple(dict.fromkeys(actions)), effect, sources)


@dataclass(frozen=True)
class Acl:
    """The rules of one user."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    def policies(self) -> Iterator[tuple[PolicyType, tuple[Entry, ...]]]:
        """Yield the policies that have entries, in the order in which they count."""
        for kind, entries in ((PolicyType.CUSTOM, self.custom), (PolicyType.DEFAULT, self.default)):
            if entries:
                yield kind, entries

    def merged(self, kind: PolicyType, entries: Iterable[Entry]) -> Acl:
        """Return the rules with these entries added. An entry replaces the one with the same resource: it is never widened."""
        by_resource = {entry.resource: entry for entry in self._of(kind)}
        by_resource.update({entry.resource: entry for entry in entries})
        if len(by_resource) > ENTRIES_MAX:
            raise AccessError(f"A user has at most {ENTRIES_MAX} rules.")
        return self._with(kind, tuple(by_resource.values()))

    def without(self, kind: PolicyType, resource: ResourcePattern) -> Acl:
        return self._with(kind, tuple(entry for entry in self._of(kind) if entry.resource != resource))

    def _of(self, kind: PolicyType) -> tuple[Entry, ...]:
        return self.custom if kind is PolicyType.CUSTOM else self.default

    def _with(self, kind: PolicyType, entries: tuple[Entry, ...]) -> Acl:
        return Acl(entries, self.default) if kind is PolicyType.CUSTOM else Acl(self.custom, entries)

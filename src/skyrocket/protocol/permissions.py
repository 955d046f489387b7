"""What a request needs in order to be allowed: actions, and the resources they are done to. Access control reads it from here.

A field of a header that names a resource says so in its type (`TopicName`, …), so that access control can find the names in any
header without knowing its code.
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from functools import cache
from typing import Annotated, NamedTuple, get_args

import msgspec
from msgspec import Meta

from skyrocket.protocol.header import Header


class Action(Flag):
    """What is done. Apache's names."""

    PUB = auto()
    SUB = auto()
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()
    GET = auto()
    LIST = auto()


class Resource(Enum):
    """What it is done to."""

    CLUSTER = "cluster"
    TOPIC = "topic"  # in a permission: every topic
    GROUP = "group"  # in a permission: every group
    IN_HEADER = "in header"  # only in a permission: whatever the header's fields name
    IN_BODY = "in body"  # only in a permission: whatever the body names


class Permission(NamedTuple):
    """Any one of `actions`, on `resource`; where that is several (a topic and a group), on each of them."""

    resource: Resource
    actions: Action


class _Name(NamedTuple):
    resource: Resource
    separator: str = ""  # not empty: several names in one text


TopicName = Annotated[str, Meta(extra={"name": _Name(Resource.TOPIC)})]
GroupName = Annotated[str, Meta(extra={"name": _Name(Resource.GROUP)})]
ClusterName = Annotated[str, Meta(extra={"name": _Name(Resource.CLUSTER)})]
TopicNames = Annotated[str, Meta(extra={"name": _Name(Resource.TOPIC, ";")})]
GroupNames = Annotated[str, Meta(extra={"name": _Name(Resource.GROUP, ",")})]


def named_resources(header: Header) -> list[tuple[Resource, str]]:
    """The resources that the header's fields name. A field that is absent names none."""
    found: list[tuple[Resource, str]] = []
    for attribute, resource, separator in resource_fields(type(header)):
        text: str | None = getattr(header, attribute)
        if text is None:
            continue
        names = text.split(separator) if separator else [text]
        found += [(resource, name) for name in names]
    return found


@cache  # one entry per header type: bounded by the code table
def resource_fields(header_type: type[Header]) -> tuple[tuple[str, Resource, str], ...]:
    """(attribute, resource, separator) of each field that names a resource."""
    found = []
    for field in msgspec.structs.fields(header_type):
        for part in (field.type, *get_args(field.type)):  # of `TopicName | None` it is a part
            for meta in getattr(part, "__metadata__", ()):
                if meta.extra and "name" in meta.extra:
                    name: _Name = meta.extra["name"]
                    found.append((field.name, name.resource, name.separator))
    return tuple(found)

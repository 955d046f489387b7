"""Permissions that a request needs: actions on resources. Access control uses them.

A header field that names a resource has a special type (`TopicName`, …), so that access control finds the names in any header
without a list of codes.
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from functools import cache
from typing import Annotated, NamedTuple, get_args

import msgspec
from msgspec import Meta

from skyrocket.protocol.header import Header


class Action(Flag):
    """An action on a resource, by Apache's name."""

    PUB = auto()
    SUB = auto()
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()
    GET = auto()
    LIST = auto()


class Resource(Enum):
    """The kind of resource that an action applies to."""

    CLUSTER = "cluster"
    TOPIC = "topic"  # in a permission: every topic
    GROUP = "group"  # in a permission: every group
    IN_HEADER = "in header"  # only in a permission: the resources that the header names
    IN_BODY = "in body"  # only in a permission: the resources that the body names


class Permission(NamedTuple):
    """Permission for any one of `actions` on `resource`.

    If there are several resources (a topic and a group), on each of them.
    """

    resource: Resource
    actions: Action


class _Name(NamedTuple):
    resource: Resource
    separator: str = ""  # not empty: the text has several names


TopicName = Annotated[str, Meta(extra={"name": _Name(Resource.TOPIC)})]
GroupName = Annotated[str, Meta(extra={"name": _Name(Resource.GROUP)})]
ClusterName = Annotated[str, Meta(extra={"name": _Name(Resource.CLUSTER)})]
TopicNames = Annotated[str, Meta(extra={"name": _Name(Resource.TOPIC, ";")})]
GroupNames = Annotated[str, Meta(extra={"name": _Name(Resource.GROUP, ",")})]


@cache  # one entry per header type: bounded by the code table
def resource_fields(header_type: type[Header]) -> tuple[tuple[str, Resource, str], ...]:
    """Return (attribute, resource, separator) of each field that names a resource."""
    found = []
    for field in msgspec.structs.fields(header_type):
        for part in (field.type, *get_args(field.type)):  # an optional field has the type `TopicName | None`
            for meta in getattr(part, "__metadata__", ()):
                if meta.extra and "name" in meta.extra:
                    name: _Name = meta.extra["name"]
                    found.append((field.name, name.resource, name.separator))
    return tuple(found)

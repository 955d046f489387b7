"""What a request needs, by the permission column of the request table (`protocol/requests.py`).

A permission names the resources of a request: the cluster, every topic, or those that the header or the body names. A topic
`%RETRY%G` counts as group G. Apache checks nothing for the codes in `UNCHECKED_BY_APACHE`; with `is_compatible`, neither does
this function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from skyrocket.auth.decision import Need
from skyrocket.auth.policies import ResourceKind
from skyrocket.protocol.bodies import (
    BatchAckMessageRequestBody,
    Body,
    CheckClientRequestBody,
    CreateTopicListRequestBody,
    HeartbeatData,
    LiteSubscriptionCtlRequestBody,
    LockBatchRequestBody,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    UnlockBatchRequestBody,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode_request
from skyrocket.protocol.header import wire_names
from skyrocket.protocol.permissions import Action, Permission, Resource, resource_fields
from skyrocket.protocol.requests import REQUESTS, RequestCode, RequestSpec
from skyrocket.protocol.system_names import RETRY_PREFIX

UNCHECKED_BY_APACHE: Final = frozenset(
    {13, 18, 21, 22, 23, 25, 26, 27, 28, 43, 45, 46, 47, 60, 61, 106, 200, 201, 206, 209, 210, 211, 212, 213, 214, 220, 221}
    | {224, 225, 301, 302, 304, 305, 306, 311, 312, 313, 316, 318, 319, 324, 325, 329, 361, 400, 401, 402, 513, 907}
    | {1005, 1006, 1007, 1009, 1010, 2001, 2002, 2003, 2004, 5001, 200056, 200151}
    | {200070, 200071, 200072, *range(200074, 200080)}
)
"""Apache 5.5.0 lets every user with a valid signature send these. Observed, code by code."""

_KINDS: Final = {
    Resource.CLUSTER: ResourceKind.CLUSTER,
    Resource.TOPIC: ResourceKind.TOPIC,
    Resource.GROUP: ResourceKind.GROUP,
}
_SENDS: Final = frozenset({10, 310, 320, 324, 325})
_TOPIC_FIRST: Final = frozenset({11, 361, 14, 15})  # Apache names the topic first when it refuses these
_WITHOUT_RETRY_TOPIC: Final = _TOPIC_FIRST | {34, 41, 42, 46, 400}  # the group is checked, so its retry topic need not be
_MAY_NAME_NOTHING: Final = frozenset(map(int, (
    RequestCode.UNREGISTER_CLIENT,  # of a producer
    RequestCode.END_TRANSACTION,  # of a client below 5.0, whose header has no topic
)))  # fmt: skip

Name = tuple[Resource, str]


class _Field(NamedTuple):
    """A header field that names resources."""

    wire_name: str
    resource: Resource
    separator: str


@cache  # bounded by the table of requests
def _named_fields(spec: RequestSpec) -> tuple[_Field, ...]:
    """Return the fields of a request's header that name what its permission asks for, in the order in which they are checked."""
    if spec.header is None:
        return ()
    wire = dict(wire_names(spec.header))
    fields = [_Field(wire[name], resource, separator) for name, resource, separator in resource_fields(spec.header)]
    if spec.permission.resource is Resource.CLUSTER:
        fields = [field for field in fields if field.resource is Resource.CLUSTER]
    if spec.code in _TOPIC_FIRST:
        fields.sort(key=lambda field: field.resource is not Resource.TOPIC)
    return tuple(fields)


@cache  # bounded by the table of requests: no other code gets here twice
def _naming_fields(spec: RequestSpec) -> tuple[str, ...] | None:
    if spec.permission.resource is not Resource.IN_HEADER:
        return None
    return tuple(field.wire_name for field in _named_fields(spec))


def naming_fields(code: int) -> tuple[str, ...] | None:
    """Return the header fields that decide what a request needs; None when that depends on anything else."""
    spec = REQUESTS.get(code)
    return None if spec is None else _naming_fields(spec)


def _names_in_header(spec: RequestSpec, command: Command) -> list[Name]:
    found: list[Name] = []
    for wire_name, resource, separator in _named_fields(spec):
        text = command.fields.get(wire_name)
        if text:
            found += [(resource, name) for name in (text.split(separator) if separator else (text,)) if name]
    return found


def _heartbeat(body: HeartbeatData) -> Iterator[Name]:
    for consumer in body.consumer_data_set:
        yield Resource.GROUP, consumer.group_name
        for subscription in consumer.subscription_data_set:
            yield Resource.TOPIC, subscription.topic


def _queues(body: LockBatchRequestBody | UnlockBatchRequestBody) -> Iterator[Name]:
    yield Resource.GROUP, body.consumer_group
    for topic in dict.fromkeys(queue.topic for queue in body.mq_set):
        yield Resource.TOPIC, topic


def _group_and_topic(body: QueryAssignmentRequestBody | SetMessageRequestModeRequestBody) -> Iterator[Name]:
    yield Resource.GROUP, body.consumer_group
    yield Resource.TOPIC, body.topic


def _check_client(body: CheckClientRequestBody) -> Iterator[Name]:
    yield Resource.GROUP, body.group
    if body.subscription_data is not None:
        yield Resource.TOPIC, body.subscription_data.topic


def _acks(body: BatchAckMessageRequestBody) -> Iterator[Name]:
    for ack in body.acks or ():
        yield Resource.GROUP, ack.consumer_group
        yield Resource.TOPIC, ack.topic


def _lite(body: LiteSubscriptionCtlRequestBody) -> Iterator[Name]:
    for subscription in body.subscription_set or ():
        yield Resource.GROUP, subscription.group
        yield Resource.TOPIC, subscription.topic


def _topics(body: CreateTopicListRequestBody) -> Iterator[Name]:
    return ((Resource.TOPIC, topic.topic_name or "") for topic in body.topic_config_list or ())


def _group(body: SubscriptionGroupConfig) -> Iterator[Name]:
    yield Resource.GROUP, body.group_name


def _groups(body: SubscriptionGroupList) -> Iterator[Name]:
    return ((Resource.GROUP, group.group_name) for group in body.group_config_list or ())


_IN_BODY: Final[dict[int, tuple[type[Body], Callable[[Any], Iterable[Name]]]]] = {
    RequestCode.HEART_BEAT: (HeartbeatData, _heartbeat),
    RequestCode.LOCK_BATCH_MQ: (LockBatchRequestBody, _queues),
    RequestCode.UNLOCK_BATCH_MQ: (UnlockBatchRequestBody, _queues),
    RequestCode.QUERY_ASSIGNMENT: (QueryAssignmentRequestBody, _group_and_topic),
    RequestCode.SET_MESSAGE_REQUEST_MODE: (SetMessageRequestModeRequestBody, _group_and_topic),
    RequestCode.CHECK_CLIENT_CONFIG: (CheckClientRequestBody, _check_client),
    RequestCode.BATCH_ACK_MESSAGE: (BatchAckMessageRequestBody, _acks),
    RequestCode.LITE_SUBSCRIPTION_CTL: (LiteSubscriptionCtlRequestBody, _lite),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (CreateTopicListRequestBody, _topics),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (SubscriptionGroupConfig, _group),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (SubscriptionGroupList, _groups),
}


def _names_in_body(spec: RequestSpec, command: Command) -> list[Name] | None:
    """Return the resources that the body names; None when it cannot be read."""
    body_type, names = _IN_BODY[spec.code]
    try:
        return [(resource, name) for resource, name in names(decode_request(command.body, body_type)) if name]
    except BodyError:
        return None


def needs_of(command: Command, cluster: str, *, is_compatible: bool = False) -> list[Need]:
    """Return what a request needs, all of it. Nothing: every authenticated user may send it. `cluster` is the broker's own."""
    spec = REQUESTS.get(command.code)
    if spec is None or (is_compatible and command.code in UNCHECKED_BY_APACHE):
        return []  # no handler serves an unknown code
    resource, actions = spec.permission
    on_cluster = Need(ResourceKind.CLUSTER, cluster, actions)
    if resource is Resource.CLUSTER:
        named = [name for _, name in _names_in_header(spec, command)]
        return [Need(ResourceKind.CLUSTER, name, actions) for name in named] or [on_cluster]
    if resource in _KINDS:
        return [Need(_KINDS[resource], None, actions)]
    names = _names_in_header(spec, command) if resource is Resource.IN_HEADER else _names_in_body(spec, command)
    if names is None:
        return [on_cluster]
    if is_compatible and spec.code == RequestCode.CONSUMER_SEND_MSG_BACK:
        names = [(kind, name) for kind, name in names if kind is Resource.GROUP]  # Apache does not check the topic
    if not names and not is_compatible and resource is Resource.IN_HEADER and spec.code not in _MAY_NAME_NOTHING:
        return [on_cluster]  # it names nothing, and might mean anything: a message by its offset, say
    return [need for kind, name in names if (need := _need(spec.code, spec.permission, kind, name)) is not None]


def _need(code: int, permission: Permission, resource: Resource, name: str) -> Need | None:
    if resource is not Resource.TOPIC or not name.startswith(RETRY_PREFIX):
        return Need(_KINDS[resource], name, permission.actions)
    if code in _WITHOUT_RETRY_TOPIC:
        return None
    actions = permission.actions
    if code in _SENDS:
        actions = Action.SUB
    elif code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        actions &= ~Action.PUB
    return Need(ResourceKind.GROUP, name.removeprefix(RETRY_PREFIX), actions)

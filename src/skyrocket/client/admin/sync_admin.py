"""The admin classes without await: each method has the arguments of its async twin and blocks until the result is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from skyrocket.client.admin.access import AccessAdmin
from skyrocket.client.admin.cluster import ClusterAdmin
from skyrocket.client.admin.groups import GroupAdmin
from skyrocket.client.admin.messages import MessageAdmin
from skyrocket.client.admin.offsets import OffsetAdmin
from skyrocket.client.admin.topics import TopicAdmin

T = TypeVar("T")
N = TypeVar("N")
A = ParamSpec("A")


class RunCoroutine(Protocol):
    """Runs a coroutine in the event loop of the client, and blocks until it ends."""

    def __call__(self, job: Coroutine[Any, Any, T], /) -> T: ...


class SyncAdminPart(Generic[N]):
    """One admin class without await."""

    def __init__(self, get: Callable[[], N], run: RunCoroutine) -> None:
        """`get` returns the async object, and starts the client if needed."""
        self.get_async = get
        self.run = run


def _blocking(method: Callable[Concatenate[N, A], Coroutine[Any, Any, T]]) -> Callable[Concatenate[SyncAdminPart[N], A], T]:
    @wraps(method)
    def call(part: SyncAdminPart[N], *args: A.args, **kwargs: A.kwargs) -> T:
        return part.run(method(part.get_async(), *args, **kwargs))

    return cast("Callable[Concatenate[SyncAdminPart[N], A], T]", call)


def _blocking_iterator(
    method: Callable[Concatenate[N, A], AsyncIterator[T]],
) -> Callable[Concatenate[SyncAdminPart[N], A], Iterator[T]]:
    @wraps(method)
    def iterate(part: SyncAdminPart[N], *args: A.args, **kwargs: A.kwargs) -> Iterator[T]:
        items = method(part.get_async(), *args, **kwargs)
        while (item := part.run(_next(items))) is not None:
            yield item

    return cast("Callable[Concatenate[SyncAdminPart[N], A], Iterator[T]]", iterate)


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)


class SyncTopicAdmin(SyncAdminPart[TopicAdmin]):
    create = _blocking(TopicAdmin.create)
    delete = _blocking(TopicAdmin.delete)
    names = _blocking(TopicAdmin.names)
    get = _blocking(TopicAdmin.get)
    get_at = _blocking(TopicAdmin.get_at)
    route = _blocking(TopicAdmin.route)
    status = _blocking(TopicAdmin.status)
    groups = _blocking(TopicAdmin.groups)


class SyncGroupAdmin(SyncAdminPart[GroupAdmin]):
    create = _blocking(GroupAdmin.create)
    delete = _blocking(GroupAdmin.delete)
    names = _blocking(GroupAdmin.names)
    get = _blocking(GroupAdmin.get)
    members = _blocking(GroupAdmin.members)
    member_state = _blocking(GroupAdmin.member_state)
    progress = _blocking(GroupAdmin.progress)
    topics = _blocking(GroupAdmin.topics)
    producers = _blocking(GroupAdmin.producers)


class SyncOffsetAdmin(SyncAdminPart[OffsetAdmin]):
    get = _blocking(OffsetAdmin.get)
    at = _blocking(OffsetAdmin.at)
    reset = _blocking(OffsetAdmin.reset)
    set = _blocking(OffsetAdmin.set)
    clone = _blocking(OffsetAdmin.clone)


class SyncMessageAdmin(SyncAdminPart[MessageAdmin]):
    by_key = _blocking(MessageAdmin.by_key)
    by_unique_id = _blocking(MessageAdmin.by_unique_id)
    by_offset_id = _blocking(MessageAdmin.by_offset_id)
    by_offset = _blocking(MessageAdmin.by_offset)
    peek = _blocking(MessageAdmin.peek)
    trace = _blocking(MessageAdmin.trace)
    retry_dead_letter = _blocking(MessageAdmin.retry_dead_letter)
    read = _blocking_iterator(MessageAdmin.read)
    read_queue = _blocking_iterator(MessageAdmin.read_queue)
    follow = _blocking_iterator(MessageAdmin.follow)


class SyncClusterAdmin(SyncAdminPart[ClusterAdmin]):
    brokers = _blocking(ClusterAdmin.brokers)
    states = _blocking(ClusterAdmin.states)
    state = _blocking(ClusterAdmin.state)
    replication = _blocking(ClusterAdmin.replication)
    nameserver_states = _blocking(ClusterAdmin.nameserver_states)
    runtime = _blocking(ClusterAdmin.runtime)
    transfer_leader = _blocking(ClusterAdmin.transfer_leader)
    drain = _blocking(ClusterAdmin.drain)
    undrain = _blocking(ClusterAdmin.undrain)
    config = _blocking(ClusterAdmin.config)
    update_config = _blocking(ClusterAdmin.update_config)
    nameserver_config = _blocking(ClusterAdmin.nameserver_config)
    update_nameserver_config = _blocking(ClusterAdmin.update_nameserver_config)


class SyncAccessAdmin(SyncAdminPart[AccessAdmin]):
    create_user = _blocking(AccessAdmin.create_user)
    update_user = _blocking(AccessAdmin.update_user)
    delete_user = _blocking(AccessAdmin.delete_user)
    get_user = _blocking(AccessAdmin.get_user)
    list_users = _blocking(AccessAdmin.list_users)
    create_rules = _blocking(AccessAdmin.create_rules)
    update_rules = _blocking(AccessAdmin.update_rules)
    delete_rules = _blocking(AccessAdmin.delete_rules)
    list_rules = _blocking(AccessAdmin.list_rules)
